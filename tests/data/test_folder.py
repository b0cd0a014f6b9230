import shutil

import numpy as np
import pytest
from PIL import Image
from tests.conftest import save_stripes

from semppl.core.errors import UserError
from semppl.data.folder import load_folder
from semppl.data.request import Request


def given(root, **options):
    return load_folder(Request(source=str(root), **options))


def by_name(data):
    return {name: label for name, label in zip(data.names, data.labels_M.tolist(), strict=True) if label >= 0}


def test_a_table_labels_any_part_of_a_folder_of_any_depth(tmp_path):
    save_stripes(tmp_path / "a" / "b c" / "[1]", [0, 1, 2])
    save_stripes(tmp_path / "图", [0])
    table = tmp_path / "labels.csv"
    table.write_text("path,label,who\na/b c/[1]/002.png,owl,x\n图/000.png,cat,y\n")
    data = given(tmp_path, labels=str(table))
    assert data.classes == ("cat", "owl")
    assert list(data.names) == ["a/b c/[1]/000.png", "a/b c/[1]/001.png", "a/b c/[1]/002.png", "图/000.png"]
    assert by_name(data) == {"a/b c/[1]/002.png": 1, "图/000.png": 0}
    assert by_name(given(tmp_path)) == by_name(data), "a labels.csv in the folder is found by itself"


def test_class_folders_beside_an_unlabelled_one(class_folders):
    shutil.move(class_folders / "owl", class_folders / "unlabelled")
    Image.new("RGB", (8, 8)).save(class_folders / "stray.png")
    data = given(class_folders)
    assert data.classes == ("cat", "dog")
    assert np.bincount(data.labels_M.numpy() + 1).tolist() == [13, 12, 12]


def test_train_and_val_folders_are_training_and_test(class_folders, tmp_path):
    root = tmp_path / "set"
    shutil.copytree(class_folders, root / "train")
    save_stripes(root / "val" / "dog", [1, 1], seed=9)
    data = given(root, labels_per_class=2)
    assert len(data.names) == 36
    assert data.test_labels_T.tolist() == [1, 1]
    assert data.test_names[0].endswith("val/dog/000.png")


def test_a_test_folder_or_table_of_the_users(class_folders, tmp_path):
    save_stripes(tmp_path / "exam" / "owl", [2], seed=9)
    data = given(class_folders, label_fraction=1.0, test=str(tmp_path / "exam"))
    assert (len(data.names), data.test_labels_T.tolist()) == (36, [2])

    table = tmp_path / "exam.csv"
    table.write_text("path,label\nowl/003.png,owl\ncat/001.png,cat\n")
    data = given(class_folders, label_fraction=1.0, test=str(table))
    assert len(data.names) == len(data.labels_M) == len(data.sides_M2) == len(data.file_bytes_M) == 34
    assert "owl/003.png" not in list(data.names)
    assert list(data.test_names) == ["cat/001.png", "owl/003.png"]
    assert data.test_labels_T.tolist() == [0, 2]


def test_strange_classes_in_the_test_are_named(class_folders, tmp_path):
    save_stripes(tmp_path / "exam" / "emu", [0])
    save_stripes(tmp_path / "exam" / "cat", [0])
    with pytest.raises(UserError, match=r"class 'emu' has no image with a label"):
        given(class_folders, label_fraction=1.0, test=str(tmp_path / "exam"))
    with pytest.raises(UserError, match=r"--test nowhere: no such"):
        given(class_folders, label_fraction=1.0, test="nowhere")
    Image.new("RGB", (8, 8)).save(tmp_path / "exam" / "stray.png")
    with pytest.raises(UserError, match=r"stray.png is in no class folder"):
        given(class_folders, label_fraction=1.0, test=str(tmp_path / "exam"))


def test_folders_are_not_taken_for_classes_unasked(class_folders):
    with pytest.raises(UserError, match=r"which images have labels\? Give --labels"):
        given(class_folders)
    assert (given(class_folders, require_labels=False).labels_M >= 0).all()


def test_one_class_folder_is_not_enough(tmp_path):
    save_stripes(tmp_path / "cat", [0])
    with pytest.raises(UserError, match="only one class folder, 'cat'"):
        given(tmp_path, label_fraction=1.0)


def test_many_unreadable_files_stop_it_unless_told_to_go_on(class_folders):
    for i in range(4):
        (class_folders / "cat" / f"bad{i}.jpg").write_text("no image")
    with pytest.raises(UserError, match=r"--allow-unreadable"):
        given(class_folders, label_fraction=1.0)
    data = given(class_folders, label_fraction=1.0, allow_unreadable=True)
    assert (len(data.names), len(data.bad)) == (36, 4)
    assert "4 unreadable: see bad_files.csv" in data.describe()


def test_a_test_folder_inside_the_data_is_for_testing_alone(class_folders):
    save_stripes(class_folders / "test" / "owl", [2, 2], seed=9)
    data = given(class_folders, label_fraction=1.0, test=str(class_folders / "test"))
    assert data.classes == ("cat", "dog", "owl")
    assert len(data.names) == len(data.file_bytes_M) == 36
    assert list(data.test_names) == ["test/owl/000.png", "test/owl/001.png"]
    with pytest.raises(UserError, match=r"is test/ a class\?"):
        given(class_folders, label_fraction=1.0)
    with pytest.raises(UserError, match="no image of the data is left"):
        given(class_folders / "test", label_fraction=1.0, test=str(class_folders / "test"))


def test_a_run_inside_the_data_is_not_data(class_folders):
    run = class_folders / "runs" / "mine"
    save_stripes(run, [0, 1])
    assert given(class_folders, label_fraction=1.0).classes == ("cat", "dog", "owl", "runs")
    (run / "config.yaml").write_text("")
    (run / "split.sha256").write_text("")
    assert given(class_folders, label_fraction=1.0).classes == ("cat", "dog", "owl")


def test_few_labels_of_a_flat_folder_with_a_table(tmp_path):
    save_stripes(tmp_path, [0, 1, 0, 1])
    (tmp_path / "labels.csv").write_text("path,label\n000.png,a\n001.png,b\n002.png,a\n003.png,b\n")
    assert given(tmp_path, labels_per_class=1).classes == ("a", "b")


@pytest.mark.parametrize("name", ["Unlabelled", "UNLABELED"])
def test_a_folder_of_unlabelled_images_may_be_written_in_capitals(class_folders, name):
    shutil.move(class_folders / "owl", class_folders / name)
    data = given(class_folders)
    assert data.classes == ("cat", "dog")
    assert (data.labels_M < 0).sum() == 12


def test_a_table_that_is_not_read_is_named_with_what_reads_it(class_folders):
    shutil.move(class_folders / "owl", class_folders / "unlabelled")
    table = class_folders / "labels.csv"
    table.write_text("path,label\ncat/000.png,dog\ncat/001.png,owl\n")
    (note,) = given(class_folders).notes
    assert note == f"{table} is not read, for folders are the classes: --labels {table} reads it"
    assert given(class_folders, labels=str(table)).notes == ()
    shutil.rmtree(class_folders / "dog")
    with pytest.raises(UserError, match=r"only one class folder, 'cat'.* \(.*labels\.csv is not read"):
        given(class_folders)


def test_rows_of_test_images_are_passed_over_and_counted(class_folders):
    save_stripes(class_folders / "test" / "owl", [2, 2], seed=9)
    (class_folders / "test" / "owl" / "bad.png").write_text("no image")
    table = class_folders / "labels.csv"
    rows = ["cat/000.png,cat", "dog/000.png,dog", "test/owl/000.png,owl", "test/owl/bad.png,owl"]
    table.write_text("\n".join(["path,label", "owl/000.png,owl", *rows]))
    exam = str(class_folders / "test")
    data = given(class_folders, labels=str(table), test=exam, allow_unreadable=True)
    assert data.notes == ("labels.csv: 2 rows are of test images, which are for testing alone",)
    assert by_name(data) == {"cat/000.png": 0, "dog/000.png": 1, "owl/000.png": 2}
    assert list(data.test_names) == ["test/owl/000.png", "test/owl/001.png"]


def test_images_that_are_not_read_are_remarked_once(class_folders, tmp_path):
    (class_folders / "cat" / "a.heic").write_text("")
    save_stripes(tmp_path / "exam" / "owl", [2], seed=9)
    (tmp_path / "exam" / "owl" / "b.svg").write_text("")
    notes = given(class_folders, label_fraction=1.0, test=str(tmp_path / "exam")).notes
    assert notes == (
        f"{class_folders}: 1 file .heic is not read: convert it to JPEG or PNG",
        f"{tmp_path / 'exam'}: 1 file .svg is not read: convert it to JPEG or PNG",
    )
    shutil.move(tmp_path / "exam", class_folders / "exam")
    (note,) = given(class_folders, label_fraction=1.0, test=str(class_folders / "exam")).notes
    assert "1 file .heic and 1 file .svg are not read" in note


@pytest.mark.parametrize("flag", ["labels", "test"])
def test_an_empty_name_is_not_the_folder_where_one_is(class_folders, flag):
    with pytest.raises(UserError, match=f"^--{flag} is empty: "):
        given(class_folders, **{flag: ""})
