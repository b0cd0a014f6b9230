import io
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from semppl.evaluate.calibration import calibrate
from semppl.evaluate.teaching import create_student
from semppl.fit import measure as module
from semppl.fit.measure import measure
from semppl.fit.settings import FitSettings
from semppl.fit.tuning import answers
from semppl.fit.verdict import Row, marked


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    right = torch.ones(21, dtype=torch.bool)
    row = Row("supervised only", "own head", marked(right), right)
    monkeypatch.setattr(module, "supervised", lambda *_: row)
    tuned = SimpleNamespace(model=None), Row("SemPPL", "fine-tuned", row.mark, right)
    monkeypatch.setattr(module, "fine_tuned", lambda *_: tuned)
    taught = Row("SemPPL", "fine-tuned on all images", row.mark, right)
    monkeypatch.setattr(module, "taught", lambda *_: (None, taught, None))


FROZEN = FitSettings(finetune=False, consistency=False, baselines=False)


def ways(found):
    return [(row.name, row.way) for row in found.rows]


def test_all_rows_in_their_order(desk, online):
    found = measure(desk, online, 1.0, FitSettings())
    assert ways(found) == [
        ("SemPPL", "linear"),
        ("SemPPL", "k-NN"),
        ("SemPPL", "fine-tuned"),
        ("SemPPL", "fine-tuned on all images"),
        ("frozen at its start", "linear"),
        ("frozen at its start", "k-NN"),
        ("supervised only", "own head"),
    ]
    assert found.exam.describe() == "21 images whose label was withheld"
    assert found.trust[0].count == 3, "votes are tested on the labels held out"
    assert all(0 <= row.validation <= 100 for row in found.rows[:2])


def test_the_confusion_of_the_chosen_way_adds_up_to_its_marks(desk, online):
    found = measure(desk, online, 1.0, FROZEN)
    (row,) = (row for row in found.rows if row.way == found.decides)
    confusion = torch.tensor(found.confusion)
    assert confusion.sum(1).tolist() == [7, 7, 7], "twelve of each class, five of them with a given label"
    assert int(confusion.diagonal().sum()) == int(row.right_N.sum())


def test_parts_can_be_left_out(desk, online):
    found = measure(desk, online, 1.0, FROZEN)
    assert ways(found) == [("SemPPL", "linear"), ("SemPPL", "k-NN")]
    found = measure(desk, online, 1.0, FitSettings(finetune=False, baselines=False))
    assert ways(found)[2:] == [("SemPPL", "fine-tuned on all images")], "--no-finetune leaves it in"


@pytest.mark.parametrize(
    ("until", "baselines", "allowed"), [(None, True, 5), (40, True, 33), (40, False, 40), (10, True, 5)]
)
def test_what_is_left_of_the_minutes_goes_into_training_on_all_images(
    desk, online, monkeypatch, until, baselines, allowed
):
    """The baseline takes seven seconds, before."""
    clock, seen, row = SimpleNamespace(now=1000.0), [], module.supervised()

    def supervised(*_):
        clock.now += 7
        return row

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(module, "supervised", supervised)
    monkeypatch.setattr(module, "taught", lambda *given: seen.append(given[-2:]))
    settings = FitSettings(finetune=False, baselines=baselines)
    found = measure(desk, online, 10.0, settings, until and 1000.0 + until)
    assert seen == [(10.0, allowed)]
    assert (found.rows[-1] is row) == baselines, "baselines stand below"


def test_too_little_time_leaves_no_row(desk, online, monkeypatch):
    monkeypatch.setattr(module, "taught", lambda *_: None)
    found = measure(desk, online, 1.0, FitSettings(finetune=False, baselines=False))
    assert ways(found) == [("SemPPL", "linear"), ("SemPPL", "k-NN")]
    assert found.course is None


def test_where_all_images_decide_their_network_answers_and_its_features_vote(desk, online, monkeypatch):
    index = desk.dataset.labelled_L
    fit = desk.linear(torch.randn(12, 32), desk.dataset.labels_M[index])
    model = create_student(online.encoder, fit).eval()
    torch.nn.init.constant_(model.classifier.weight, 0.0)
    model.classifier.bias.data = torch.tensor([0.0, 1.0, 0.0])
    row, asked = module.taught()[1], []
    monkeypatch.setattr(module, "taught", lambda *_: ("course", row, model))
    monkeypatch.setattr(module, "chosen", lambda rows: rows[2])
    monkeypatch.setattr(module, "answers", lambda desk, of, exam: asked.append(of) or answers(desk, of, exam))
    found = measure(desk, online, 1.0, FitSettings(finetune=False, baselines=False))
    assert (found.decides, found.course) == ("fine-tuned on all images", "course")
    assert found.confusion == [[0, 7, 0]] * 3, "it answers the second class for all"
    assert asked == [model]
    assert found.trust[0].precision == pytest.approx(1 / 3), "on the labels held out it is asked, too"
    held = desk.dataset.validation_V
    logits = desk.logits(model, desk.dataset.images[held])
    assert found.calibration == calibrate(logits, desk.dataset.held_out_M[held])
    assert (found.calibration.labels, found.calibration.right) == (3, 1)
    assert found.strength is None


def test_without_held_out_labels_votes_are_tested_leaving_one_out(make_desk, online):
    desk = make_desk(validation=0.0)
    found = measure(desk, online, 1.0, FROZEN)
    assert found.trust[0].count == 15
    assert found.rows[0].validation is None
    assert found.calibration is None


@pytest.mark.parametrize("strength", [0.001, 0.1])
def test_the_linear_way_is_calibrated_with_the_penalty_of_the_model(desk, online, monkeypatch, strength):
    """Another one has logits of another size."""
    dataset, chosen = desk.dataset, type(desk).linear

    def linear(self, features, labels, seed=None, **given):
        if len(labels) == 15:
            given.setdefault("strength", strength)
        return chosen(self, features, labels, seed, **given)

    monkeypatch.setattr(type(desk), "linear", linear)
    found = measure(desk, online, 1.0, FROZEN)
    labelled = desk.features(online.encoder, dataset.images[dataset.labelled_L])
    labels = dataset.labels_M[dataset.labelled_L]
    linear = chosen(desk, labelled, labels, strength=strength)
    assert found.strength == strength != chosen(desk, labelled, labels).strength
    logits = linear.logits(desk.features(online.encoder, dataset.images[dataset.validation_V]))
    assert found.decides == "linear"
    assert found.calibration == calibrate(logits, dataset.held_out_M[dataset.validation_V])
    assert found.calibration.labels == 3


def test_votes_are_shares_and_need_no_calibration(desk, online, monkeypatch):
    monkeypatch.setattr(module, "chosen", lambda rows: rows[1])
    found = measure(desk, online, 1.0, FROZEN)
    assert (found.decides, found.calibration) == ("k-NN", None)
    assert found.trust[0].count == 3


def test_with_nothing_to_measure_on_it_says_so(make_desk, online):
    desk = make_desk(labels_per_class=None, label_fraction=1.0, validation=0.0)
    words = io.StringIO()
    loud = type(desk)(desk.config, desk.dataset, desk.device, Console(file=words, width=300))
    found = measure(loud, online, 1.0, FROZEN)
    assert len(found.exam) == 36
    assert found.confusion is None
    assert "on the very labels of training and mean little" in words.getvalue()
