import pytest

from semppl.ablate.direction import SAME_TOP1, alone, verdict
from semppl.core.paired import Difference

CLEAR, LOSS, VAGUE = Difference(3.0, 0.5, 3), Difference(-3.0, 0.5, 3), Difference(1.0, 2.0, 3)


@pytest.mark.parametrize(
    ("ours", "paper", "words"),
    [
        (CLEAR, [1.1], "agrees"),
        (LOSS, [-6.6, -4.9], "agrees"),
        (LOSS, [0.2], "the other way"),
        (VAGUE, [1.1], "too close to tell (it may be chance)"),
        (VAGUE, [0.1], "too close to tell (the paper sees no difference either)"),
        (CLEAR, [-0.1], "differs (the paper sees no difference)"),
        (CLEAR, [-0.1, 2.0], "agrees"),
        (CLEAR, [-1.0, 2.0], "too close to tell (the paper has it both ways)"),
        (CLEAR, [], "not in the paper"),
        (None, [1.0], "missing (no seed has both rows)"),
        (Difference(9.0, None, 1), [1.0], "one seed cannot tell"),
        (Difference(-9.0, None, 1), [1.0], "one seed cannot tell"),
        (Difference(9.0, None, 1), [], "not in the paper"),
    ],
)
def test_verdicts(ours, paper, words):
    assert str(verdict(ours, paper, SAME_TOP1)) == words


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        (CLEAR, "better"),
        (LOSS, "worse"),
        (VAGUE, "too close to tell (it may be chance)"),
        (Difference(9.0, None, 1), "one seed cannot tell"),
        (None, "missing (no seed has both rows)"),
    ],
)
def test_a_difference_that_the_paper_does_not_have_is_judged_by_itself(ours, words):
    assert str(alone(ours)) == words
