import pytest

from semppl.core.counted import counted, without_endings


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 images"),
        (1, "1 image"),
        (2, "2 images"),
        (1500, "1,500 images"),
        ("1", "1 image"),
        ("0.1", "0.1 images"),
        ("1.5", "1.5 images"),
        ("1500", "1500 images"),
        ("–", "– images"),
    ],
)
def test_one_has_no_ending(count, said):
    assert counted(count, "image") == said


def test_a_number_that_is_written_as_one_is_one():
    assert counted(f"{0.9999999:g}", "epoch") == "1 epoch"
    assert counted(f"{1.04:g}", "epoch") == "1.04 epochs"


def test_nouns_with_a_plural_of_their_own():
    assert counted(1, "class", "classes") == "1 class"
    assert counted(3, "class", "classes") == "3 classes"


@pytest.mark.parametrize(
    ("noun", "plural"),
    [("seed", "seeds"), ("image", "images"), ("class", "classes"), ("process", "processes")],
)
def test_what_is_counted_has_no_ending_to_differ_in(noun, plural):
    assert without_endings(f"k=1; 1 {noun}; x") == without_endings(f"k=1; 1 {plural}; x")


def test_words_of_earlier_results_are_the_same():
    assert without_endings("2 epochs; 1 seed(s)") == without_endings("2 epochs; 1 seed") == "2 epoch; 1 seed"


def test_other_numbers_and_other_words_stay_others():
    assert without_endings("1 seed") != without_endings("2 seeds")
    assert without_endings("1 seed") != without_endings("1 step")
    words = "cosine, k=5; crops of 20% to 100% and flips, rates × 0.2 at 60 % and 80 %; 512 beside 128 here"
    assert without_endings(words) == words
    assert without_endings("2 classes and 3 boxes") == "2 class and 3 box"
