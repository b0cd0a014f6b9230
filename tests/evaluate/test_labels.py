import math

from semppl.evaluate.labels import trust_by_votes


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
