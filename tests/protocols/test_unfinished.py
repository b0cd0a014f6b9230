import io
import json
import re
import signal
from dataclasses import replace
from functools import partial

import pytest
import torch
from rich.console import Console

from semppl.core.errors import UserError
from semppl.protocols import unfinished
from semppl.protocols.compare import compare
from semppl.protocols.run import run_evaluate
from semppl.protocols.settings import EvaluateFlags
from semppl.protocols.unfinished import bookmark_of, digest_of, forget_, recalled
from semppl.train.interrupt import Interrupted
from semppl.train.progress import StageProgress
from semppl.views import warp

STEPS = {"title": "x", "steps": 3}


@pytest.fixture
def resumable(trained, subject_of, request):
    """Its results have a name that no other test has."""
    subject = replace(subject_of(trained, name=request.node.name), resumable=True)
    yield subject
    forget_(subject, "finetune")
    assert not unfinished._folder(subject, "finetune").exists()


def places(subject, facts, training="a"):
    """Which steps a training that stops after its second one does, and then the same again."""
    done = []
    for _ in range(2):
        with bookmark_of(subject, "finetune", training, facts=facts, **STEPS) as bookmark:
            place = bookmark.find()
            done.append(0 if place is None else place.step)
            bookmark.passed(3, dict)
    return done


def test_nothing_is_kept_where_nobody_asked_for_it(trained, subject_of, resumable):
    for subject, training in ((subject_of(trained), "a"), (resumable, None)):
        with bookmark_of(subject, "finetune", training, facts={}, **STEPS) as bookmark:
            assert bookmark is None
    made = iter((1.0, 2.0))
    assert [recalled(subject_of(trained), "finetune", "b", {}, partial(next, made)) for _ in "ab"] == [1, 2]
    assert not (trained.evaluations / "unfinished").exists()


def test_trainings_of_a_result_have_a_folder_until_it_is_forgotten(resumable, trained):
    assert places(resumable, {"seed": 0}) == [0, 3]
    folder = trained.evaluations / "unfinished" / f"finetune-{resumable.flags.name}"
    assert [path.name for path in folder.iterdir()] == ["a.ckpt"]
    assert places(resumable, {"seed": 1}) == [0, 3], "another seed is another training"
    assert places(resumable, {"seed": 0}, "b") == [0, 3], "another name is another file"
    forget_(resumable, "knn")
    assert places(resumable, {"seed": 0}, "b") == [3, 3], "another result is forgotten"
    forget_(resumable, "finetune")
    assert not (trained.evaluations / "unfinished").exists()


def changed(subject, **facts):
    return replace(subject, facts={**subject.facts, **facts})


def with_config(subject, **changes):
    return replace(subject, desk=replace(subject.desk, config=replace(subject.desk.config, **changes)))


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda subject: subject, 3),
        (partial(changed, data_sha256="other"), 0),
        (partial(changed, split_sha256="other"), 0),
        (partial(changed, preprocessing={"crop": "other"}), 0),
        (partial(changed, checkpoint="elsewhere"), 3),
        (partial(with_config, seed=7), 0),
        (partial(with_config, source="moved", speed="eager"), 3),
        (lambda subject: replace(subject, flags=replace(subject.flags, sweep="paper")), 0),
        (lambda subject: replace(subject, flags=replace(subject.flags, seeds=5, overwrite=True, k=3)), 3),
        (lambda subject: replace(subject, desk=replace(subject.desk, device=torch.device("meta"))), 0),
    ],
)
def test_what_decides_on_a_training_must_be_the_same(resumable, change, place):
    places(resumable, {})
    assert places(change(resumable), {})[0] == place


def test_numbers_are_recalled_where_the_same_is_asked(resumable):
    def ask(**facts):
        return recalled(resumable, "finetune", "c", facts, partial(next, made))

    made = iter((0.1, 0.2, 0.3, 0.4))
    assert [ask(a=1), ask(a=1), ask(a=2), ask(a=2)] == [0.1, 0.1, 0.2, 0.2]
    (unfinished._folder(resumable, "finetune") / "c.json").write_text('{"facts"')
    assert [ask(a=2), ask(a=2)] == [0.3, 0.3]


def test_a_digest_is_of_values_and_of_where_one_tensor_ends():
    a, b = torch.tensor([1, 2]), torch.tensor([3])
    assert digest_of(a, b) == digest_of(a.clone(), b.clone())
    assert digest_of(a, b) != digest_of(torch.tensor([1]), torch.tensor([2, 3]))
    assert digest_of(a, b) != digest_of(a, b + 1)


# through the verb


class Interrupter:
    """Raises a signal after a step of a training, or fails there, and says which steps were done."""

    def __init__(self, monkeypatch):
        self.at, self.fails, self.steps, real = None, False, [], StageProgress.advance

        def advance(progress, done, *more):
            real(progress, done, *more)
            self.steps.append((progress._title, done))
            if self.at == (progress._title, done):
                self.at = None
                if self.fails:
                    raise MemoryError
                signal.raise_signal(signal.SIGTERM)

        monkeypatch.setattr(StageProgress, "advance", advance)

    def of(self, title):
        found = [done for each, done in self.steps if each == title]
        self.steps.clear()
        return found


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """Of a training whose length nobody asked for."""
    monkeypatch.setattr("semppl.protocols.finetuning.EPOCHS", 4)
    monkeypatch.setattr("semppl.protocols.finetuning._FEWEST_STEPS", 4)


@pytest.fixture
def interrupter(monkeypatch):
    return Interrupter(monkeypatch)


def evaluate(run, name, protocol, **changes):
    flags = EvaluateFlags(protocol=protocol, name=name, device="cpu", workers=0, **changes)
    console = Console(file=io.StringIO(), width=2000)
    run_evaluate([run.path], flags, console)
    return console.file.getvalue()


CASES = {
    "supervised": ({"protocol": ("supervised",), "epochs": 6}, "training on the labels alone, seed 1", 6),
    "consistency": (
        {"protocol": ("finetune",), "consistency": True, "sure": 0.4, "epochs": 9},
        "fine-tuning with consistency, seed 1",
        6,
    ),
    "scratch": (
        {"protocol": ("supervised",), "consistency": True, "sure": 0.4, "epochs": 9},
        "training with consistency, seed 1",
        6,
    ),
    "finetune": ({"protocol": ("finetune",), "epochs": 6}, "fine-tuning on all labels, seed 1", 6),
    "confident": (
        {"protocol": ("finetune",), "epochs": 6, "confident": 0.3},
        "fine-tuning with confident answers, seed 1",
        6,
    ),
    "linear": ({"protocol": ("linear-sgd",), "epochs": 6}, "linear by SGD, seed 1", 6),
}


@pytest.mark.parametrize("case", CASES)
def test_a_training_that_was_stopped_goes_on_and_finds_the_same(case, trained, answered, interrupter):
    how, title, steps = CASES[case]
    evaluate(trained, f"{case}-whole", seeds=2, **how)
    assert interrupter.of(title) == list(range(1, steps + 1))
    whole = [*answered]
    answered.clear()
    name, interrupter.at = f"{case}-stopped", (title, 2)
    with pytest.raises(Interrupted, match=rf"step 2 of {steps} \({title}\), which is kept: the same command"):
        evaluate(trained, name, seeds=2, **how)
    assert not list(trained.evaluations.glob(f"*{name}.json"))
    interrupter.steps.clear()
    answered.clear()
    said = evaluate(trained, name, seeds=2, **how)
    assert f"{title}: goes on at step 2 of {steps}" in said
    first = title.replace("seed 1", "seed 0")
    done = [each for each in interrupter.steps if each[0] in (first, title)]
    assert done == [(title, step) for step in range(3, steps + 1)], "and the first seed is not trained again"
    assert not [each for each, _ in interrupter.steps if "fine-tuning 1/" in each], "nor is anything chosen"
    assert len(answered) == 2
    assert all(map(torch.equal, answered, whole))
    one, other = (
        json.loads((trained.evaluations / f"{how['protocol'][0]}-{case}-{word}.json").read_text())
        for word in ("whole", "stopped")
    )
    for key in ("protocol", "numbers", "settings", "details"):
        assert one[key] == other[key]
    assert not (trained.evaluations / "unfinished").exists()


@pytest.mark.parametrize(("before", "after"), [(0.0, 0.5), (0.5, 0.0)])
def test_a_training_that_saw_other_hard_views_begins_anew(trained, interrupter, monkeypatch, before, after):
    how, title, steps = CASES["consistency"]
    monkeypatch.setattr(warp, "SHARE", before)
    name, interrupter.at = f"warped{before}", (title, 2)
    with pytest.raises(Interrupted):
        evaluate(trained, name, seed=1, **how)
    monkeypatch.setattr(warp, "SHARE", after)
    interrupter.steps.clear()
    assert f"is of another training (other warp): {title} begins anew" in evaluate(
        trained, name, seed=1, **how
    )
    assert interrupter.of(title) == list(range(1, steps + 1))


@pytest.mark.parametrize(("every", "left"), [(0.0, [4, 5, 6]), (1e9, [1, 2, 3, 4, 5, 6])])
def test_a_kill_loses_what_was_done_since_the_last_copy(trained, interrupter, monkeypatch, every, left):
    how, title, _ = CASES["supervised"]
    monkeypatch.setattr(unfinished, "EVERY", every)
    interrupter.at, interrupter.fails = (title, 4), True
    with pytest.raises(MemoryError):
        evaluate(trained, f"killed{every}", seed=1, **how)
    assert interrupter.of(title) == [1, 2, 3, 4]
    evaluate(trained, f"killed{every}", seed=1, **how)
    assert interrupter.of(title) == left


def test_what_fails_after_a_training_costs_no_training_and_results_are_read_meanwhile(
    trained, interrupter, monkeypatch
):
    how, title, steps = CASES["supervised"]
    with monkeypatch.context() as patch:
        patch.setattr("semppl.protocols.subject.Subject.marked", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            evaluate(trained, "failed", seed=1, **how)
    assert interrupter.of(title) == list(range(1, steps + 1))
    assert (trained.evaluations / "unfinished" / "supervised-failed" / "seed1.ckpt").is_file()
    compare([trained.path], Console(quiet=True))
    evaluate(trained, "failed", seed=1, **how)
    assert interrupter.of(title) == []


@pytest.mark.parametrize(
    ("case", "change", "odd"),
    [
        ("supervised", {"epochs": 7}, "steps"),
        ("supervised", {"labels": "all"}, "batch, labels"),
        ("supervised", {"network": "target"}, None),
        ("consistency", {"sure": 0.5}, "sure"),
        ("consistency", {"network": "target"}, "weights"),
        ("scratch", {"network": "target"}, None),
        ("finetune", {"epochs": 7}, "epochs, steps"),
        ("finetune", {"network": "target"}, "weights"),
        ("finetune", {"seeds": 3}, None),
        ("finetune", {"confident": 1.0}, "epochs, steps"),
        ("linear", {"epochs": 7}, "steps"),
        ("linear", {"network": "target"}, "weights"),
    ],
)
def test_another_training_begins_anew(case, change, odd, trained, interrupter, request):
    how, title, steps = CASES[case]
    name, interrupter.at = request.node.callspec.id, (title, 2)
    with pytest.raises(Interrupted):
        evaluate(trained, name, seed=1, **{"validation": 0.0, **how})
    said = evaluate(trained, name, seed=1, **{"validation": 0.0, **how, **change})
    if odd is None:
        assert f"{title}: goes on at step 2 of {steps}" in said
    else:
        assert re.search(rf"seed1\.ckpt is of another training \(other {odd}\): {title} begins anew", said)


def test_who_is_told_to_go_on_is_not_sent_into_his_own_results(trained, interrupter):
    how, title, _ = CASES["supervised"]
    how = {**how, "protocol": ("knn", "supervised"), "seed": 1}
    interrupter.at = (title, 2)
    with pytest.raises(Interrupted) as caught:
        evaluate(trained, "both", **how)
    assert str(caught.value).endswith(
        f": the same command with what is left, {trained.path} --protocol supervised, goes on"
    )
    with pytest.raises(UserError, match=r"knn-both\.json is there already"):
        evaluate(trained, "both", **how)
    interrupter.at = (title, 4)
    with pytest.raises(Interrupted, match=r": the same command goes on$"):
        evaluate(trained, "both", **how, overwrite=True)
    assert f"{title}: goes on at step 4 of 6" in evaluate(
        trained, "both", **{**how, "protocol": ("supervised",)}
    )
