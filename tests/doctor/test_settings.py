from dataclasses import replace

import pytest

from semppl.core.errors import UserError
from semppl.doctor.settings import DoctorFlags, check


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"steps": 1}, "--steps is 1: it must be at least 2"),
        ({"seconds": -1.0}, "--seconds is -1: it must be at least 0"),
        ({"intra_gbps": 0.0}, "--intra-gbps is 0: it must be above 0"),
        ({"inter_gbps": float("nan")}, "--inter-gbps is nan: it must be above 0"),
        ({"inter_us": -3.0}, "--inter-us is -3: it must be at least 0"),
    ],
)
def test_values_that_mean_nothing_are_refused(changes, words):
    with pytest.raises(UserError, match=words):
        check(replace(DoctorFlags(), **changes))


def test_a_file_that_is_there_a_folder_and_a_file_in_the_way_are_refused(tmp_path):
    there = tmp_path / "doctor.json"
    there.write_text("mine")
    with pytest.raises(UserError, match=r"doctor\.json is there already: give --overwrite"):
        check(DoctorFlags(out=there))
    check(DoctorFlags(out=there, overwrite=True))
    with pytest.raises(UserError, match=r"is a folder: name a file, such as .*doctor\.json"):
        check(DoctorFlags(out=tmp_path))
    with pytest.raises(UserError, match="give another file"):
        check(DoctorFlags(out=there / "below.json"))
    assert there.read_text() == "mine"


def test_folders_on_the_way_are_made(tmp_path):
    check(DoctorFlags(out=tmp_path / "new" / "doctor.json"))
    assert (tmp_path / "new").is_dir()
