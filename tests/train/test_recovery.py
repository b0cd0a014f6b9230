import math
from dataclasses import replace

import pytest
import torch
from tests.conftest import stripes_npz
from tests.train.test_state import same, training
from tests.train.world import in_ranks

from semppl.config import MethodConfig, OptimConfig
from semppl.core.errors import RunError
from semppl.core.rundir import RunDirectory
from semppl.train.monitor import Tally
from semppl.train.recovery import IN_A_ROW, Recovery, finite

OPTIMISERS = [OptimConfig(name=name, base_lr=0.05) for name in ("adamw", "sgd", "lars")]


@torch.no_grad()
def spoil_(state):
    touched = [state.queue._embeddings]
    for module in (state.online, state.target.module):
        touched += [t for t in (*module.parameters(), *module.buffers()) if t.is_floating_point()]
    touched += [value for buffers in state.optimizer.state.values() for value in buffers.values()]
    for tensor in touched:
        tensor.fill_(math.nan)


def spoilt(run, at, how="loss"):
    """A step that goes wrong: everything that it touches is spoilt."""

    def step(batch):
        number = run.state.step
        outcome = run.step(batch)
        if number not in at:
            return outcome
        spoil_(run.state)
        if how == "weights":
            return outcome
        return outcome._replace(terms=outcome.terms._replace(total=torch.tensor(math.nan)))

    return replace(run, step=step)


def names(count=48):
    return tuple(f"{i}.png" for i in range(count))


def recovered(run, tmp_path, upto, every, said=None):
    """A loop that settles now and then."""
    tally = Tally(None, 4, run.device)
    recovery = Recovery(run, RunDirectory(tmp_path), names(), tally, (said or []).append)
    while run.state.step < upto:
        batch = run.feed(run.state.step)
        recovery.note(run.step(batch), batch)
        if run.state.step % every == 0 or run.state.step == upto:
            recovery.settle_()
    return recovery, tally


def without(run, left_out, upto):
    """What it should be: as if these steps had never been."""
    while run.state.step < upto:
        if run.state.step in left_out:
            run.state.step += 1
        else:
            run.step(run.feed(run.state.step))
    return run


@pytest.fixture(scope="module", params=OPTIMISERS, ids=lambda optim: optim.name)
def without_4(request, tmp_path_factory):
    """An optimiser, images, and the state after six steps of which one was left out."""
    torch.set_num_threads(1)
    npz = stripes_npz(tmp_path_factory.mktemp("data") / "stripes.npz")
    run = without(training(npz, optim=request.param), {4}, 6)
    return request.param, npz, run.state.state_dict()


@pytest.mark.parametrize("how", ["loss", "weights"])
@pytest.mark.parametrize("every", [1, 3, 6])
def test_a_bad_step_leaves_no_trace(without_4, tmp_path, how, every):
    optim, npz, expected = without_4
    bad = spoilt(training(npz, optim=optim), {4}, how)
    recovery, tally = recovered(bad, tmp_path, 6, every)
    assert same(bad.state.state_dict(), expected)
    assert same(recovery.safe, expected)
    assert recovery.skipped == 1
    assert all(math.isfinite(v) for k, v in tally.flush_().items() if k.startswith("loss"))


@pytest.mark.parametrize("at", [{0}, {0, 1}, {2, 3, 5, 6}, {9}])
def test_the_first_the_last_and_several_steps_may_be_bad(npz, tmp_path, at):
    bad = spoilt(training(npz), at)
    recovery, _ = recovered(bad, tmp_path, 10, 4)
    assert same(bad.state.state_dict(), without(training(npz), at, 10).state.state_dict())
    assert recovery.skipped == len(at)


@pytest.mark.parametrize("every", [1, 2, 10])
def test_three_in_a_row_end_the_run_with_the_names_of_the_batch(npz, tmp_path, every):
    said = []
    run = spoilt(training(npz), {4, 5, 6})
    first, second = (names()[i] for i in run.feed(6).index_B[:2].tolist())
    with pytest.raises(RunError, match=rf"nan at step 6, the 3rd in a row, batch of {first}, {second}"):
        recovered(run, tmp_path, 10, every, said)
    assert IN_A_ROW == 3
    assert len((tmp_path / "bad_batch.txt").read_text().splitlines()) == 16


def test_what_was_left_out_is_said(npz, tmp_path):
    said = []
    tally = Tally(None, 4, torch.device("cpu"))
    run = spoilt(training(npz), {1})
    recovery = Recovery(run, RunDirectory(tmp_path), names(), tally, said.append)
    for _ in range(3):
        batch = run.feed(run.state.step)
        recovery.note(run.step(batch), batch)
    recovery.settle_()
    assert len(said) == 1
    assert said[0].startswith("step 1 was left out: the loss is nan, batch of ")


def test_a_run_without_queue_and_target_recovers_too(npz, tmp_path):
    method = MethodConfig(objective="simclr", positives=0)
    run = training(npz, method=method)

    def step(batch):
        number, outcome = run.state.step, run.step(batch)
        total = torch.tensor(math.inf if number == 1 else 1.0)
        return outcome._replace(terms=outcome.terms._replace(total=total))

    bad = replace(run, step=step)
    recovered(bad, tmp_path, 4, 2)
    assert same(run.state.state_dict(), without(training(npz, method=method), {1}, 4).state.state_dict())


def test_finite_looks_at_the_predictor_too(npz):
    state = training(npz).state
    assert finite(state)
    with torch.no_grad():
        next(state.predictor.parameters())[0, 0] = math.inf
    assert not finite(state)


def test_bad_steps_that_are_not_in_a_row_do_not_add_up(npz, tmp_path):
    at = {0, 3, 4, 7, 8}
    bad = spoilt(training(npz), at)
    recovery, _ = recovered(bad, tmp_path, 10, 3)
    assert recovery.skipped == 5
    assert same(bad.state.state_dict(), without(training(npz), at, 10).state.state_dict())


@pytest.mark.parametrize("every", [5, 10])
def test_steps_that_are_done_again_are_counted(npz, tmp_path, every):
    counted = []

    class Counts:
        def add_(self, outcome, batch):
            counted.append(float(outcome.terms.total))

        def flush_(self):
            counted.clear()

    run = spoilt(training(npz), {7})
    recovery = Recovery(run, RunDirectory(tmp_path), names(), Counts(), print)
    while run.state.step < 10:
        batch = run.feed(run.state.step)
        recovery.note(run.step(batch), batch)
        if run.state.step % every == 0:
            recovery.settle_()
    assert len(counted) == every - 1
    assert all(map(math.isfinite, counted))


def one_sided(ranks, device, npz, folder):
    """A loss that only rank 1 sees as bad."""
    run = replace(training(npz), ranks=ranks)

    def step(batch):
        number, outcome = run.state.step, run.step(batch)
        bad = ranks.share.rank == 1 and number == 2
        total = torch.tensor(math.nan) if bad else outcome.terms.total
        return outcome._replace(terms=outcome.terms._replace(total=total))

    mine = folder / str(ranks.share.rank)
    mine.mkdir()
    recovery, _ = recovered(replace(run, step=step), mine, 5, 5)
    return recovery.skipped, [path.name for path in mine.iterdir()], run.state.snapshot()


def test_what_one_rank_leaves_out_all_leave_out_and_the_main_one_writes(npz, tmp_path):
    (first, wrote, one), (second, nothing, two) = in_ranks(2, one_sided, str(npz), tmp_path)
    assert first == second == 1
    assert (wrote, nothing) == (["bad_batch.txt"], [])
    assert same(one, two)
