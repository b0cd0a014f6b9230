import shutil

import numpy as np
import pytest
from tests.conftest import save_stripes

from semppl.core.errors import UserError
from semppl.data import duplicates
from semppl.data.duplicates import duplicate_groups, without_duplicates
from semppl.data.folder import load_folder
from semppl.data.request import Request
from semppl.data.source import load_dataset
from semppl.evaluate.exam import withheld_exam


def test_groups_are_found_by_content_and_only_near_what_is_wanted(tmp_path):
    contents = [b"same", b"diff", b"same", b"longer", b"longer", b"alone!!"]
    for i, content in enumerate(contents):
        (tmp_path / str(i)).write_bytes(content)
    sizes = np.array([len(content) for content in contents])
    read = []

    def path_of(i):
        read.append(i)
        return str(tmp_path / str(i))

    assert duplicate_groups(path_of, sizes, np.array([True] + [False] * 5)) == [[0, 2]]
    assert sorted(read) == [0, 1, 2], "files of other lengths are not opened"
    (tmp_path / "2").unlink()
    assert duplicate_groups(path_of, sizes, np.ones(6, dtype=bool)) == [[3, 4]], "a file that has gone"


def given(root, **options):
    return without_duplicates(load_folder(Request(source=str(root), label_fraction=1.0, **options)))


def test_equal_files_with_one_label_count_once(class_folders):
    shutil.copy(class_folders / "cat" / "003.png", class_folders / "cat" / "copy.png")
    data = given(class_folders)
    assert int((data.labels_M == 0).sum()) == 12
    assert data.labels_M[list(data.names).index("cat/copy.png")] == -1
    assert data.notes == ("1 labelled image equals another one with the same label: counted once",)


def test_equal_files_with_different_labels_lose_both(class_folders):
    shutil.copy(class_folders / "cat" / "003.png", class_folders / "dog" / "copy.png")
    data = given(class_folders)
    names = list(data.names)
    assert data.labels_M[names.index("cat/003.png")] == data.labels_M[names.index("dog/copy.png")] == -1
    assert data.notes == (
        "equal images with different labels, so neither is used: cat/003.png (cat) and dog/copy.png (dog)",
    )


def test_test_images_seen_in_training_leave_the_test(class_folders, tmp_path):
    save_stripes(tmp_path / "exam" / "owl", [2, 2], seed=9)
    save_stripes(tmp_path / "exam" / "cat", [0], seed=8)
    shutil.copy(class_folders / "cat" / "003.png", tmp_path / "exam" / "cat" / "seen.png")
    data = given(class_folders, test=str(tmp_path / "exam"))
    assert data.test_labels_T.tolist() == [0, 2, 2]
    assert len(data.test_images) == len(data.test_names) == 3
    assert data.notes == ("1 test image is also among the training images: left out of the test",)


def test_an_unlabelled_copy_of_a_labelled_image_is_no_question_of_an_exam(class_folders):
    for i in range(12):
        shutil.copy(class_folders / "cat" / f"{i:03d}.png", class_folders / "cat" / f"copy{i:03d}.png")
    data = load_dataset(Request(source=str(class_folders), labels_per_class=6))
    names = list(data.names)
    labelled = {names[i] for i in data.labelled_L.tolist()}
    asked = withheld_exam(data)
    known = {names[i] for i in range(len(names))} - labelled
    twins = {
        name.replace("copy", "") if "copy" in name else name.replace("cat/", "cat/copy") for name in labelled
    }
    assert len(asked) == len(known - twins)


def test_reading_too_much_is_left_undone_and_said(class_folders, monkeypatch):
    monkeypatch.setattr(duplicates, "_MOST_BYTES", 10)
    shutil.copy(class_folders / "cat" / "003.png", class_folders / "cat" / "copy.png")
    data = given(class_folders)
    assert int((data.labels_M == 0).sum()) == 13
    assert "not looked for" in data.notes[0]


def test_a_test_of_copies_alone_is_refused(class_folders, tmp_path):
    (tmp_path / "exam").mkdir()
    shutil.copytree(class_folders / "cat", tmp_path / "exam" / "cat")
    with pytest.raises(UserError, match="all test images are also among the training images"):
        given(class_folders, test=str(tmp_path / "exam"))
