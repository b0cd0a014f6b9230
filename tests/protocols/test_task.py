from dataclasses import replace

import pytest
import torch
from tests.conftest import tiny_config

from semppl.config import DataConfig
from semppl.core.errors import UserError
from semppl.protocols.task import build_labels, build_task
from semppl.train.prepare import load_for

CPU = torch.device("cpu")
HOW = {"which": "given", "share": 0.2, "seed": 0}


@pytest.fixture
def data(class_folders):
    def load(**changes):
        options = {"labels_per_class": 5, "workers": 0, **changes}
        return load_for(tiny_config(class_folders, data=DataConfig(**options)), CPU)

    return load


def with_test(dataset):
    return replace(dataset, test_images=dataset.images[:6], test_labels_T=torch.arange(6) % 3)


def test_labels_that_choose_are_carved_from_the_given_ones(data):
    dataset = data()
    task = build_task(dataset, **HOW)
    assert task.exam.kind == "withheld"
    assert (len(task.labels.all_L), len(task.labels.fit_L), len(task.labels.choose_V)) == (15, 12, 3)
    assert not set(task.labels.fit_L.tolist()) & set(task.labels.choose_V.tolist())
    assert sorted(task.labels.labels_M[task.labels.choose_V].tolist()) == [0, 1, 2]
    assert task.describe() == "15 given labels; 21 images whose label was withheld"
    again = build_task(dataset, **HOW)
    assert torch.equal(task.labels.choose_V, again.labels.choose_V)


def test_labels_that_were_set_aside_choose(data):
    dataset = data(validation=0.2)
    task = build_task(dataset, **HOW)
    assert torch.equal(task.labels.choose_V, dataset.validation_V)
    assert torch.equal(task.labels.fit_L, dataset.labelled_L)
    assert len(task.labels.all_L) == 15


def test_where_validation_is_the_exam_it_neither_fits_nor_chooses(data):
    dataset = replace(data(labels_per_class=12, validation=0.5), hidden=None)
    task = build_task(dataset, **HOW)
    assert task.exam.kind == "validation"
    exam = set(dataset.validation_V.tolist())
    assert not exam & set(task.labels.all_L.tolist())
    assert not exam & set(task.labels.choose_V.tolist())
    assert len(task.labels.choose_V) == 3


def test_the_truth_of_the_exam_is_found_by_asking(data):
    dataset = with_test(data())
    task = build_task(dataset, **HOW)
    assert task.exam.kind == "test"
    assert torch.equal(task.truth_N, torch.arange(6) % 3)
    withheld = build_task(data(), **HOW)
    truth = torch.tensor([("cat", "dog", "owl").index(path.split("/")[0]) for path in data().names])
    free = data().labels_M == -1
    assert torch.equal(withheld.truth_N, truth[free])


def test_all_labels_are_the_true_ones_and_need_a_test_of_their_own(data):
    task = build_task(with_test(data()), **{**HOW, "which": "all"})
    truth = torch.tensor([("cat", "dog", "owl").index(path.split("/")[0]) for path in data().names])
    assert torch.equal(task.labels.labels_M, truth)
    assert len(task.labels.choose_V) == 6, "two of twelve"
    assert task.describe() == "36 labels, all that are known of 36 images; 6 test images"
    with pytest.raises(UserError, match="--labels all leaves nothing to measure on"):
        build_task(data(), **{**HOW, "which": "all"})


def test_one_label_of_each_class_leaves_nothing_to_choose_with(data):
    task = build_task(data(labels_per_class=1), **HOW)
    assert (len(task.labels.all_L), len(task.labels.choose_V)) == (3, 0)


def test_nothing_to_measure_on_is_one_line(data):
    dataset = replace(data(), hidden=None)
    with pytest.raises(UserError, match="nothing to measure on"):
        build_task(dataset, **HOW)


def test_labels_for_other_exams_are_all_that_were_given(data):
    dataset = data(labels_per_class=12, validation=0.5)
    labels = build_labels(dataset, **HOW)
    assert len(labels.all_L) == 36
    assert torch.equal(labels.choose_V, dataset.validation_V)
    everything = build_labels(data(), which="all", share=0.2, seed=0)
    assert len(everything.all_L) == 36, "no test images are needed"


def test_no_label_at_all_is_one_line(data):
    dataset = data()
    none = replace(with_test(dataset), labels_M=torch.full_like(dataset.labels_M, -1), hidden=None)
    with pytest.raises(UserError, match="no image has a label"):
        build_task(none, **HOW)


def test_labels_that_nobody_knows_are_not_called_true(data):
    dataset = replace(with_test(data()), hidden=None)
    task = build_task(dataset, **{**HOW, "which": "all"})
    assert task.labels.describe() == "15 labels, all that are known of 36 images"
