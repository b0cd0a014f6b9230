import sys

import pytest

from semppl.core.errors import UserError
from semppl.saliency.settings import MasksFlags, require_opencv, require_sensible


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"train_images": 0}, "--train-images is 0: it must be at least 1"),
        ({"sheet": -1}, "--sheet is -1"),
        ({"workers": -2}, "--workers is -2"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(flags, words):
    with pytest.raises(UserError, match=words):
        require_sensible(MasksFlags(**flags))


def test_a_truth_that_is_not_there_is_refused(tmp_path):
    require_sensible(MasksFlags(truth=tmp_path))
    with pytest.raises(UserError, match="no such folder of masks"):
        require_sensible(MasksFlags(truth=tmp_path / "none"))


def test_without_opencv_a_line_says_what_to_install(monkeypatch):
    require_opencv()
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(UserError, match=r"pip install 'semppl\[masks\]'"):
        require_opencv()


def test_opencv_without_its_contrib_modules_is_not_enough(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", sys)
    with pytest.raises(UserError, match="contrib"):
        require_opencv()
