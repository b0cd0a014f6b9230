from dataclasses import replace

import pytest
import torch
from tests.conftest import tiny_config
from tests.core.recorders import PlainRecorder

import semppl.train.capture as capture
import semppl.train.step as train_step
from semppl.config import MethodConfig, OptimConfig
from semppl.data.request import Request
from semppl.data.source import load_dataset
from semppl.resolve import resolved
from semppl.train.build import build_training
from semppl.train.capture import CapturedStep
from semppl.train.step import train_step_

CPU = torch.device("cpu")


def training(npz, **changes):
    data = load_dataset(Request(source=str(npz)))
    config = resolved(tiny_config(npz, **changes), image_size=8, num_images=len(data.labels_M))
    return build_training(config, data, CPU)


@pytest.mark.parametrize(
    "changes",
    [
        {"optim": OptimConfig(name="lars")},
        {
            "optim": OptimConfig(name="lars"),
            "method": MethodConfig(target_schedule="cosine", queue_capacity=20),
        },
        {"optim": OptimConfig(name="lars"), "method": MethodConfig(objective="simclr", queue_capacity=20)},
        {"optim": OptimConfig(name="lars"), "method": MethodConfig(positives=0)},
    ],
)
def test_everything_that_changes_from_step_to_step_reaches_a_recorded_step(npz, changes, monkeypatch):
    plain, recorded = training(npz, **changes), training(npz, **changes)
    recorder = PlainRecorder(recorded.state)
    guarded = replace(
        recorded.plan, lr=recorder.guarded(recorded.plan.lr), decay=recorder.guarded(recorded.plan.decay)
    )
    monkeypatch.setattr(capture, "stream", recorder.guarded(capture.stream))
    monkeypatch.setattr(train_step, "generator", recorder.guarded(train_step.generator))
    step = CapturedStep(recorded.state, guarded, warm_up=2, recorder=recorder)
    for i in range(6):
        expected = train_step_(plain.state, plain.feed(i), plain.plan)
        outcome = step(recorded.feed(i))
        torch.testing.assert_close(torch.stack(outcome.terms), torch.stack(expected.terms))
        if expected.votes is not None:
            assert torch.equal(outcome.votes.ballots_JB, expected.votes.ballots_JB)
    assert (recorder.runs, recorder.recordings, recorder.replays) == (2, 1, 4)
    assert recorded.state.step == plain.state.step == 6
    ours, theirs = recorded.state.state_dict(), plain.state.state_dict()
    for part in ("online", "predictor", "target", "queue"):
        if theirs[part] is None:
            continue
        for name, tensor in theirs[part].items():
            torch.testing.assert_close(ours[part][name], tensor, msg=f"{part} {name}")


def test_an_outcome_stays_as_it_was_when_the_next_step_is_done(npz):
    run = training(npz, optim=OptimConfig(name="lars"))
    step = CapturedStep(run.state, run.plan, warm_up=1, recorder=PlainRecorder())
    outcomes = [step(run.feed(i)) for i in range(4)]
    again = training(npz, optim=OptimConfig(name="lars"))
    expected = [train_step_(again.state, again.feed(i), again.plan) for i in range(4)]
    totals = torch.stack([outcome.terms.total for outcome in outcomes])
    torch.testing.assert_close(totals, torch.stack([outcome.terms.total for outcome in expected]))
    assert len(totals.unique()) == 4


def test_all_generators_of_a_step_are_known_to_the_recording(npz):
    run = training(npz, optim=OptimConfig(name="lars"))
    recorder = PlainRecorder()
    step = CapturedStep(run.state, run.plan, warm_up=1, recorder=recorder)
    for i in range(2):
        step(run.feed(i))
    assert len(recorder.generators) == 3


def test_where_recording_is_refused_training_goes_on_as_it_is_and_says_so_once(npz):
    class Refusing(PlainRecorder):
        def record(self, work, generators):
            self.recordings += 1
            # as a recording does that fails at its end
            self._state.step += 1
            for each in generators:
                torch.rand(3, generator=each)
            raise RuntimeError("operation not permitted when stream is capturing\nmore lines")

    plain, refused = (training(npz, optim=OptimConfig(name="lars")) for _ in range(2))
    recorder = Refusing(refused.state)
    step = CapturedStep(refused.state, refused.plan, warm_up=1, recorder=recorder)
    with pytest.warns(
        UserWarning, match=r"goes on unrecorded: operation not permitted.*capturing$"
    ) as caught:
        found = [step(refused.feed(i)).terms.total for i in range(4)]
    assert len(caught) == 1
    assert (recorder.runs, recorder.recordings) == (4, 1)
    expected = [train_step_(plain.state, plain.feed(i), plain.plan).terms.total for i in range(4)]
    torch.testing.assert_close(torch.stack(found), torch.stack(expected))
    assert refused.state.step == 4


def test_a_full_memory_is_not_mistaken_for_a_refusal(npz):
    class Full(PlainRecorder):
        def record(self, work, generators):
            self._state.step += 1
            raise torch.OutOfMemoryError("CUDA out of memory")

    run = training(npz)
    step = CapturedStep(run.state, run.plan, warm_up=0, recorder=Full(run.state))
    with pytest.raises(torch.OutOfMemoryError):
        step(run.feed(0))
    assert run.state.step == 0
