import math

from semppl.core.trust import counts_at_the_end, shown_thresholds, trust_by_votes


def test_precision_recall_and_coverage_by_hand():
    # 10 images: 4 with one vote (1 right), 4 with two (3 right), 2 with three (2 right)
    one, two, three = trust_by_votes([0, 1, 3, 2], [0, 4, 4, 2])
    assert (one.votes, one.precision, one.recall, one.coverage) == (1, 0.6, 0.6, 1.0)
    assert (two.votes, two.precision, two.recall, two.coverage) == (2, 5 / 6, 0.5, 0.6)
    assert (three.votes, three.precision, three.recall, three.coverage) == (3, 1.0, 0.2, 0.2)


def test_images_without_any_vote_count_as_not_recalled():
    (line,) = trust_by_votes([0, 1], [3, 1])
    assert (line.precision, line.recall, line.coverage) == (1.0, 0.25, 0.25)


def test_no_image_at_a_threshold_has_no_precision():
    assert math.isnan(trust_by_votes([0, 1, 0], [0, 1, 0])[1].precision)


def test_few_thresholds_are_drawn():
    assert shown_thresholds(4) == [1, 2, 3, 4]
    assert shown_thresholds(16) == [1, 5, 8, 12, 16]
    assert shown_thresholds(1) == [1]


def test_counts_of_the_last_steps_are_added():
    def row(step, right, known):
        return {"step": step, "pseudo/right_by_votes": right, "pseudo/known_by_votes": known}

    rows = [row(10, [0, 9], [0, 9]), row(20, [0, 1], [1, 2]), {"step": 25}, row(30, [1, 2], [2, 4])]
    assert counts_at_the_end(rows, 20) == ([1, 3], [3, 6]), "step 10 is 20 steps before the last line"
    assert counts_at_the_end(rows, 21) == ([1, 12], [3, 15])
    assert counts_at_the_end([{"step": 3}], 5) == ([], [])
