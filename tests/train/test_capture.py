import pytest
import torch
from tests.conftest import tiny_config
from tests.train.test_state import same

from semppl.config import MethodConfig, OptimConfig
from semppl.core.errors import RunError
from semppl.data.source import load_dataset
from semppl.resolve import resolved
from semppl.train.build import build_training
from semppl.train.capture import CapturedStep
from semppl.train.step import train_step_

CPU = torch.device("cpu")


class PlainRecorder:
    """Replays by doing the same work again on the same memory, as a graph does."""

    def __init__(self):
        self.runs, self.recordings, self.replays, self.names = 0, 0, 0, None

    def run(self, work):
        self.runs += 1
        return work()

    def record(self, work, generators):
        self.recordings += 1
        self.generators = list(generators)

        def replay():
            self.replays += 1
            return work()

        return replay


def training(npz, **changes):
    data = load_dataset(str(npz))
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
def test_everything_that_changes_from_step_to_step_reaches_a_recorded_step(npz, changes):
    plain, recorded = training(npz, **changes), training(npz, **changes)
    recorder = PlainRecorder()
    step = CapturedStep(recorded.state, recorded.plan, warm_up=2, recorder=recorder)
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


def test_a_failed_recording_says_how_to_go_on_and_leaves_the_step_undone(npz):
    class Broken(PlainRecorder):
        def record(self, work, generators):
            raise RuntimeError("operation not permitted when stream is capturing\nmore lines")

    run = training(npz)
    step = CapturedStep(run.state, run.plan, warm_up=0, recorder=Broken())
    before = training(npz).state.state_dict()
    with pytest.raises(
        RunError, match=r"not permitted when stream is capturing\): go on with --resume --speed"
    ):
        step(run.feed(0))
    assert same(run.state.state_dict(), before)
