import io
import json

import pytest
import torch
from rich.console import Console

from semppl.core.errors import UserError
from semppl.evaluate import consistency as plans
from semppl.protocols import teaching
from semppl.protocols.consistency import finetune_consistently
from semppl.protocols.finetuning import finetune
from semppl.protocols.run import run_evaluate
from semppl.protocols.settings import EvaluateFlags
from semppl.views import warp


def test_it_runs_through_evaluate_and_says_what_was_done(trained):
    console = Console(file=io.StringIO(), width=2000)
    flags = EvaluateFlags(
        protocol=("finetune",),
        consistency=True,
        sure=0.34,
        epochs=3,
        seeds=2,
        device="cpu",
        workers=0,
        name="consistent",
    )
    run_evaluate([trained.path], flags, console)
    content = json.loads((trained.evaluations / "finetune-consistent.json").read_text())
    words = "fine-tuned with consistency: 21 unlabelled images, P = 0.34, 3 epochs of them"
    assert content["protocol"].startswith(words)
    assert words in console.file.getvalue()
    assert "15 given labels; 30 test images; 2 seeds" in content["protocol"]
    assert content["settings"]["least_probability"] == 0.34
    assert content["settings"]["steps"] == 2
    first, second = content["details"]["consistency"]
    assert (first["seed"], second["seed"]) == (0, 1)
    for curve in (first["by_epoch"], second["by_epoch"]):
        assert [row["epoch"] for row in curve] == [1, 2, 3]
        assert all(0 <= row["coverage"] <= 1 for row in curve)
        assert any("right" in row for row in curve)
    assert "sure of " in console.file.getvalue()
    assert "images without a label in the last epoch" in console.file.getvalue()


@pytest.mark.parametrize(
    ("share", "words", "settings"),
    [
        (0.0, "crops from 35% on, and a hole of half their side", None),
        (
            0.5,
            "crops from 35% on, 50% turned by up to 30° and sheared by up to 0.3, and a hole of",
            {"share": 0.5, "turn": 30, "shear": 0.3},
        ),
    ],
)
def test_whether_hard_views_are_warped_is_said(trained, subject_of, monkeypatch, share, words, settings):
    monkeypatch.setattr(warp, "SHARE", share)
    outcome = finetune_consistently(subject_of(trained, consistency=True, epochs=1))
    assert words in outcome.protocol
    assert outcome.settings["warp"] == settings


@pytest.mark.parametrize(
    ("sure", "steps", "words"),
    [
        (
            0.4,
            1000,
            "shares of the labels and taught by their probabilities where P is less; AdamW, rate 0.001",
        ),
        (1.0, 1000, "shares of the labels; AdamW, rate 0.001"),
        (0.4, 1, "shares of the labels; Nesterov 0.9, rate 0.03"),
    ],
)
def test_how_short_and_long_trainings_descend_is_said(trained, subject_of, monkeypatch, sure, steps, words):
    monkeypatch.setattr(plans, "_FEWEST_STEPS", steps)
    outcome = finetune_consistently(subject_of(trained, consistency=True, sure=sure, epochs=1))
    assert words in outcome.protocol
    assert outcome.settings["doubtful"] == (steps == 1000 and sure < 1)


def weights_of(monkeypatch):
    """State of every teacher that was trained."""
    kept, real = [], teaching.learn_

    def spy(*given, **how):
        teacher = real(*given, **how)
        kept.append({name: value.clone() for name, value in teacher.state_dict().items()})
        return teacher

    monkeypatch.setattr(teaching, "learn_", spy)
    return kept


def test_a_seed_decides_everything_and_the_run_stays_as_it_is(trained, subject_of, monkeypatch):
    kept = weights_of(monkeypatch)
    for seed in (0, 0, 1):
        subject = subject_of(trained, consistency=True, epochs=4, seed=seed)
        before = {name: value.clone() for name, value in subject.online.state_dict().items()}
        torch.manual_seed(seed + 77)
        finetune(subject)
        assert all(torch.equal(value, before[name]) for name, value in subject.online.state_dict().items())
    first, again, other = kept
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    assert not all(torch.equal(value, other[name]) for name, value in first.items())


def test_withheld_truth_changes_no_weight(trained, subject_of, monkeypatch):
    kept = weights_of(monkeypatch)
    for hidden in (True, False):
        subject = subject_of(trained, consistency=True, sure=0.0, epochs=4)
        if not hidden:
            object.__setattr__(subject.desk.dataset, "hidden", None)
        curve = finetune_consistently(subject).details["consistency"][0]["by_epoch"]
        assert ("right" in curve[0]) == hidden
        assert curve[0]["coverage"] == 1
    assert all(torch.equal(value, kept[1][name]) for name, value in kept[0].items())


def test_where_the_device_can_steps_are_recorded_with_the_same_weights(
    trained, subject_of, monkeypatch, recorded
):
    kept = weights_of(monkeypatch)
    finetune(subject_of(trained, consistency=True, sure=0.4, epochs=8))
    recorder = recorded()
    finetune(subject_of(trained, consistency=True, sure=0.4, epochs=8))
    assert (recorder.runs, recorder.recordings) == (3, 1)
    assert recorder.replays > 0
    torch.testing.assert_close(kept[0], kept[1])


def test_a_set_with_all_its_labels_is_refused(trained, subject_of):
    with pytest.raises(UserError, match="every image has a label: leave --consistency out"):
        finetune(subject_of(trained, consistency=True, labels="all"))
