import pytest
import torch

from semppl.core.corruptions import CORRUPTIONS, SEVERITIES
from semppl.core.errors import UserError
from semppl.data.objectnet import OBJECTNET
from semppl.data.wnids import imagenet_r_indices
from semppl.evaluate.robustness import (
    corruption_means,
    mean_over_corruptions,
    right,
    right_among_objectnet,
    right_among_r,
    right_on_objectnet,
)

ALL = torch.arange(1000)
CLOCK, WOK = list(OBJECTNET).index("alarm_clock"), list(OBJECTNET).index("wok")


def logits(*rows):
    """One row of zeros for each dictionary of outputs that are not zero."""
    x = torch.zeros(len(rows), 1000)
    for row, values in zip(x, rows, strict=True):
        for index, value in values.items():
            row[index] = value
    return x


def test_the_largest_output_is_the_answer():
    x = logits({7: 2.0}, {7: 2.0, 8: 3.0}, {999: 1.0})
    assert right(x, ALL, torch.tensor([7, 7, 999])).tolist() == [True, False, True]


def test_a_classifier_of_few_classes_answers_in_imagenets_numbers():
    x = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    index = torch.tensor([999, 0, 5])
    assert right(x, index, torch.tensor([999, 0, 5, 6])).tolist() == [True, True, True, False]


def test_imagenet_r_among_its_classes():
    # 0 is not of the 200, 1 and 2 are
    assert {0, 1, 2} & set(imagenet_r_indices()) == {1, 2}
    x = logits({0: 9.0, 1: 2.0, 2: 1.0}, {0: 9.0, 1: 1.0, 2: 2.0}, {1: 1.0})
    labels = torch.tensor([1, 1, 1])
    assert right(x, ALL, labels).tolist() == [False, False, True]
    assert right_among_r(x, ALL, labels).tolist() == [True, False, True]


def test_the_mask_hides_classes_also_if_all_others_are_negative():
    x = torch.full((1, 1000), -5.0)
    x[0, 0], x[0, 988] = 0.0, -4.0
    assert right_among_r(x, ALL, torch.tensor([988])).tolist() == [True]


def test_objectnet_takes_each_of_several_classes_and_nothing_else():
    x = logits({409: 1.0}, {530: 1.0}, {909: 1.0}, {0: 1.0}, {0: 2.0, 530: 1.0})
    labels = torch.tensor([CLOCK] * 5)
    assert right_on_objectnet(x, ALL, labels).tolist() == [True, True, False, False, False]
    assert right_among_objectnet(x, ALL, labels).tolist()[:3] == [True, True, False]
    # the tench is no answer any more: the clock is the largest of those that are left
    assert right_among_objectnet(x, ALL, labels).tolist()[4] is True


def test_an_unmapped_answer_is_wrong_for_every_class():
    x = logits(*({0: 1.0} for _ in OBJECTNET))
    assert not right_on_objectnet(x, ALL, torch.arange(len(OBJECTNET))).any()


def test_all_classes_of_objectnet_against_brute_force():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 1000, generator=generator)
    x[:, [i for several in OBJECTNET.values() for i in several]] += 1
    labels = torch.randint(113, (300,), generator=generator)
    # half of the images get an answer of their class
    for row, label in zip(x[::2], labels[::2].tolist(), strict=True):
        row[list(OBJECTNET.values())[label][-1]] = 9
    folders, shown = list(OBJECTNET), [i for several in OBJECTNET.values() for i in several]
    expected, masked = [], []
    for row, label in zip(x.tolist(), labels.tolist(), strict=True):
        answers = OBJECTNET[folders[label]]
        expected.append(max(range(1000), key=row.__getitem__) in answers)
        masked.append(max(shown, key=row.__getitem__) in answers)
    assert right_on_objectnet(x, ALL, labels).tolist() == expected
    assert right_among_objectnet(x, ALL, labels).tolist() == masked
    assert 150 <= sum(expected) <= sum(masked) < 300


def test_the_order_of_the_classifiers_classes_does_not_matter():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(50, 1000, generator=generator)
    order = torch.randperm(1000, generator=generator)
    labels = torch.randint(113, (50,), generator=generator)
    for score in (right, right_among_r, right_on_objectnet, right_among_objectnet):
        assert torch.equal(score(x, ALL, labels), score(x[:, order], order, labels))


def test_a_classifier_that_knows_none_of_the_classes_is_refused():
    x, index, labels = torch.zeros(1, 2), torch.tensor([0, 3]), torch.tensor([WOK])
    assert right_on_objectnet(x, index, labels).tolist() == [False]
    with pytest.raises(UserError, match="knows none of the classes of ObjectNet"):
        right_among_objectnet(x, index, labels)
    with pytest.raises(UserError, match="knows none of the classes of ImageNet-R"):
        right_among_r(x, index, labels)


def test_severities_first_then_corruptions():
    accuracies = {
        f"imagenet-c/fog/{i}": value for i, value in zip(SEVERITIES, (50, 40, 30, 20, 10), strict=True)
    }
    accuracies |= {f"imagenet-c/snow/{i}": 90.0 for i in SEVERITIES}
    means = corruption_means(accuracies)
    assert means == {"fog": 30.0, "snow": 90.0}
    assert mean_over_corruptions(means) == 60.0


def test_a_corruption_with_a_severity_missing_has_no_mean():
    accuracies = {f"imagenet-c/fog/{i}": 50.0 for i in SEVERITIES[1:]}
    assert corruption_means(accuracies) == {}
    assert mean_over_corruptions({}) is None


def test_the_papers_mean_of_supervised_learning():
    row = (37.1, 35.1, 30.8, 36.8, 25.9, 34.9, 38.1, 34.5, 40.7, 56.9, 68.1, 40.6, 45.6, 32.6, 56.0)
    assert round(mean_over_corruptions(dict(zip(CORRUPTIONS, row, strict=True))), 1) == 40.9
