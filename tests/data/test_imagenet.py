from hashlib import sha256

import numpy as np
import pytest

from semppl.core.errors import UserError
from semppl.data import imagenet
from semppl.data.imagenet import SUBSETS, read_subset

PATHS = ["n01/n01_1.JPEG", "n01/n01_2.JPEG", "n02/n02_1.JPEG", "n02/n02_7.JPEG"]


def save(folder, content):
    file = folder / "1percent.txt"
    file.write_text(content)
    return file


def refused(folder, content, paths=PATHS):
    file = save(folder, content)
    with pytest.raises(UserError) as caught:
        read_subset(file, paths)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{file}: ")
    return str(caught.value)


def test_the_official_lists():
    assert sorted(SUBSETS.values()) == [("1 %", 12_811), ("10 %", 128_116)]
    assert all(len(digest) == 64 and set(digest) <= set("0123456789abcdef") for digest in SUBSETS)


def test_named_images_are_found_by_their_base_names(tmp_path):
    named_M, _ = read_subset(save(tmp_path, "n02_7.JPEG\nn01_1.JPEG\n"), PATHS)
    assert named_M.tolist() == [True, False, False, True]
    assert named_M.dtype == np.bool_
    deep_M, _ = read_subset(save(tmp_path, "n02/n02_7.JPEG\n"), ["train/" + path for path in PATHS])
    assert deep_M.tolist() == [False, False, False, True]


def test_comments_and_blank_lines_are_passed_over(tmp_path):
    named_M, _ = read_subset(save(tmp_path, "# mine\n\nn01_1.JPEG"), PATHS)
    assert named_M.tolist() == [True, False, False, False]


def test_a_list_of_ones_own_is_said_to_be_one(tmp_path):
    content = "n01_1.JPEG\n"
    _, words = read_subset(save(tmp_path, content), PATHS)
    digest = sha256(content.encode()).hexdigest()
    assert words == f"a list of its own (sha256 {digest[:12]}…): not the official 1 % or 10 %"


def test_an_official_list_is_known_by_the_hash_of_its_bytes(tmp_path, monkeypatch):
    content = "n01_1.JPEG\nn02_1.JPEG\n"
    digest = sha256(content.encode()).hexdigest()
    monkeypatch.setattr(imagenet, "SUBSETS", {digest: ("1 %", 2)})
    assert read_subset(save(tmp_path, content), PATHS)[1] == f"the official 1 % list (sha256 {digest[:4]}…)"
    assert "of its own" in read_subset(save(tmp_path, content + "\n"), PATHS)[1]


def test_a_name_that_is_not_below_the_folder(tmp_path):
    line = refused(tmp_path, "n01_1.JPEG\n\nn03_5.JPEG\nn03_6.JPEG\n")
    assert "line 3: 'n03_5.JPEG' is not below the folder (2 of 3 names are missing)" in line


def test_a_name_twice(tmp_path):
    assert "line 3: 'n01_1.JPEG' is in line 1 already" in refused(
        tmp_path, "n01_1.JPEG\nn02_1.JPEG\nn01_1.JPEG\n"
    )


def test_a_name_that_fits_two_files(tmp_path):
    line = refused(tmp_path, "n01_2.JPEG\nn01_1.JPEG\n", paths=[*PATHS, "copy/n01_1.JPEG"])
    assert "line 2: 'n01_1.JPEG' fits two files, n01/n01_1.JPEG and copy/n01_1.JPEG" in line


def test_a_namesake_that_is_not_listed_does_no_harm(tmp_path):
    named_M, _ = read_subset(save(tmp_path, "n01_2.JPEG\n"), [*PATHS, "copy/n01_1.JPEG"])
    assert named_M.tolist() == [False, True, False, False, False]


def test_an_empty_list(tmp_path):
    assert "the list is empty" in refused(tmp_path, "# nothing\n\n")


def test_no_such_list(tmp_path):
    with pytest.raises(UserError, match=r"none\.txt: no such file"):
        read_subset(tmp_path / "none.txt", PATHS)
