import errno
import gc
import multiprocessing
import os
import random
import resource
import select
import signal
import time
from functools import partial
from itertools import count, islice
from pathlib import Path

import pytest
import torch

from semppl.core.errors import RunError
from semppl.data.readers import Part, Readers, read_here

# steps of 8 images in parts of 3, 3 and 2 rows
ROWS, PARTS_A_STEP = 3, 3
KEPT = []


def parts():
    for step in count():
        images = list(range(8 * step, 8 * step + 8))
        yield from (Part(step, first, images[first : first + ROWS]) for first in range(0, 8, ROWS))


def plain(step, row, image):
    return [torch.tensor([step, row, image]), torch.full((2, 2), float(image))], f"bad {image}" * (image == 6)


def deadly(images, end, memory, step, row, image):
    """The process dies of some images: the first time only, if there is a folder that remembers it."""
    seen = memory / str(image) if memory is not None else None
    if image in images and (seen is None or not seen.exists()):
        if seen is not None:
            seen.touch()
        end()
    return plain(step, row, image)


def sleepy(images, step, row, image):
    if image in images:
        time.sleep(600)
    return plain(step, row, image)


def wrong(step, row, image):
    raise ValueError("a mistake in the code")


def kill(signum):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if signum != signal.SIGKILL:
        signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)


KILL = partial(kill, signal.SIGKILL)


def make(read=plain, **changes):
    options = {"rows": ROWS, "workers": 2, "patience": 60.0, "name": "photo-{}.jpg".format, "incidents": []}
    return Readers(read, parts(), plain(0, 0, 0)[0], **{**options, **changes})


@pytest.fixture
def readers():
    made = []

    def remembered(read=plain, **changes):
        made.append(make(read, **changes))
        return made[-1]

    yield remembered
    for each in made:
        each.close()
    assert not multiprocessing.active_children()


def taken(made, steps, after_each=lambda number: None):
    """All that comes in some steps, in memory of its own."""
    everything = []
    for number, (tensors, problems) in enumerate(islice(made, PARTS_A_STEP * steps)):
        everything.append(([tensor.clone() for tensor in tensors], list(problems)))
        after_each(number)
    return everything


def check_same(mine, theirs):
    assert len(mine) == len(theirs)
    for (tensors, problems), (others, their_problems) in zip(mine, theirs, strict=True):
        assert problems == their_problems
        assert all(torch.equal(one, other) for one, other in zip(tensors, others, strict=True))


def expected(steps):
    return taken(read_here(plain, parts()), steps)


def wait_until(true):
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def settle(made):
    """All that was asked for is there."""
    wait_until(lambda: not made._listen_(0.0) and all(each.answer for each in made._errands))


def test_rows_are_stacked_in_order_and_the_last_part_may_be_short():
    tensors, problems = expected(1)[2]
    assert tensors[0].tolist() == [[0, 6, 6], [0, 7, 7]]
    assert tensors[1][:, 0, 0].tolist() == [6.0, 7.0]
    assert problems == ["bad 6"]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_processes_give_what_one_process_gives(readers, workers):
    incidents = []
    check_same(taken(readers(workers=workers, incidents=incidents), 6), expected(6))
    assert not incidents


def test_what_was_given_stays_until_the_next_is_asked_for(readers):
    made = readers()
    (numbers, _), _ = next(made)
    settle(made)
    assert numbers[:, 2].tolist() == [0, 1, 2]


def test_a_process_killed_at_any_moment_changes_nothing(readers):
    dice, incidents, killed = random.Random(0), [], []
    made = readers(incidents=incidents)

    def kill_one(number):
        # so seldom that no part is hit twice
        if number % 6 == 0:
            killed.append(dice.choice(multiprocessing.active_children()))
            killed[-1].kill()
            killed[-1].join(60)  # until then it may be chosen again

    check_same(taken(made, 20, kill_one), expected(20))
    # the last death may be heard of after the last part
    wait_until(lambda: not made._listen_(0.0) and len(incidents) == len(killed))
    assert len(killed) == 10
    assert all(line.endswith("(killed by signal 9): replaced") for line in incidents)


@pytest.mark.parametrize("image", [0, 4, 21])
def test_an_image_that_kills_once_is_named_and_read_again(readers, tmp_path, image):
    incidents = []
    check_same(taken(readers(partial(deadly, {image}, KILL, tmp_path), incidents=incidents), 3), expected(3))
    assert incidents == [
        f"a reader process died while reading photo-{image}.jpg (killed by signal 9): replaced"
    ]


def test_a_process_may_die_while_it_has_nothing_to_do(readers):
    incidents = []
    made = readers(workers=1, incidents=incidents)
    first = taken(made, 1)
    settle(made)
    (idle,) = multiprocessing.active_children()
    idle.kill()
    check_same(first + taken(made, 2), expected(3))
    assert incidents == ["a reader process died between two images (killed by signal 9): replaced"]


@pytest.mark.parametrize("image", [4, 9])
def test_an_image_that_kills_twice_ends_the_run(readers, image):
    # 4 is of step 0; 9 is of the next, and read ahead
    with pytest.raises(RunError) as caught:
        taken(readers(partial(deadly, {image}, KILL, None)), 2)
    assert str(caught.value) == (
        f"two reader processes died while reading photo-{image}.jpg (killed by signal 9): "
        "memory may be short, so lower --workers, or else remove or replace the file; "
        "then go on with --resume"
    )


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (partial(os._exit, 3), "photo-1.jpg (exit status 3): remove or replace the file; then go on"),
        (partial(kill, signal.SIGILL), "(killed by signal 4): remove or replace the file; then go on"),
        (partial(kill, signal.SIGBUS), "shared memory may be short, so lower --workers, or else remove"),
    ],
)
def test_the_remedy_fits_the_cause(readers, end, words):
    with pytest.raises(RunError) as caught:
        next(readers(partial(deadly, {1}, end, None), workers=1))
    assert words in str(caught.value)


def test_the_fifth_death_in_a_step_is_one_too_many(readers, tmp_path):
    incidents = []
    made = readers(partial(deadly, {0, 1, 2, 3, 4}, KILL, tmp_path), workers=1, incidents=incidents)
    with pytest.raises(RunError) as caught:
        taken(made, 1)
    assert str(caught.value).startswith(
        "5 reader processes in step 0 died, the last one while reading photo-4.jpg"
    )
    assert len(incidents) == 4


def test_four_deaths_in_a_step_and_four_in_another_are_not(readers, tmp_path):
    incidents = []
    read = partial(deadly, {0, 1, 3, 4, 24, 25, 27, 28}, KILL, tmp_path)
    check_same(taken(readers(read, workers=1, incidents=incidents), 4), expected(4))
    assert len(incidents) == 8


def test_processes_that_die_at_their_birth_end_the_run(readers, monkeypatch):
    monkeypatch.setattr("semppl.data.readers._serve", lambda *all_that_it_takes: os._exit(1))
    with pytest.raises(RunError) as caught:
        next(readers())
    assert str(caught.value) == (
        "5 reader processes in step 0 died, the last one between two images (exit status 1): "
        "lower --workers; then go on with --resume"
    )


def test_when_nothing_comes_the_files_in_hand_are_named(readers):
    made = readers(partial(sleepy, {4}), patience=1.0)
    wait_until(lambda: 4 in made._notes_W)
    with pytest.raises(RunError) as caught:
        taken(made, 1)
    assert str(caught.value) == (
        "no image has come for 1 s; being read: photo-4.jpg: see whether these files can be read, "
        "then go on with --resume"
    )


def test_of_many_files_in_hand_five_are_named(readers):
    made = readers(partial(sleepy, range(99)), workers=7, patience=0.01)
    wait_until(lambda: int(made._notes_W.min()) >= 0)
    with pytest.raises(
        RunError, match=r"being read: photo-0\.jpg, (photo-\d+\.jpg, ){3}photo-\d+\.jpg and 2 more:"
    ):
        next(made)


def test_an_exception_comes_with_its_trace(readers):
    with pytest.raises(
        RuntimeError, match=r"(?s)^in a reader process\n.*, in wrong\n.*a mistake in the code"
    ):
        next(readers(wrong))


def test_too_little_shared_memory_is_missed_at_the_start():
    here, (soft, hard) = Path("/dev/shm"), resource.getrlimit(resource.RLIMIT_FSIZE)
    before = set(here.glob("torch_*"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        with pytest.raises(RunError) as caught:
            make()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        for left in set(here.glob(f"torch_{os.getpid()}_*")) - before:
            left.unlink()
    assert str(caught.value) == (
        "2 reader processes need 0.0 MB of shared memory, and there is less: "
        "lower --workers, or enlarge /dev/shm"
    )


def test_a_process_that_cannot_be_started_is_told_of(readers, monkeypatch):
    def refuse(self):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(multiprocessing.Process, "start", refuse)
    with pytest.raises(
        RunError, match=r"^cannot start a reader process \(Cannot allocate memory\): lower --work"
    ):
        readers()


def test_signals_to_the_whole_group_are_left_to_the_parent(readers):
    incidents = []
    made = readers(workers=1, incidents=incidents)
    first = taken(made, 1)
    (process,) = multiprocessing.active_children()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        os.kill(process.pid, signum)
    check_same(first + taken(made, 2), expected(3))
    assert not incidents


def test_readers_that_nobody_closes_end_with_their_owner():
    made = make()
    next(made)
    assert len(multiprocessing.active_children()) == 2
    del made
    gc.collect()
    assert not multiprocessing.active_children()


def leave_open(end):
    KEPT.append(make())
    next(KEPT[0])
    end()


@pytest.mark.parametrize(
    ("end", "status"), [(gc.collect, 0), (KILL, -signal.SIGKILL)], ids=["exit", "killed"]
)
def test_no_process_outlives_its_parent(end, status):
    # the pipe is at its end when the last process that holds it is gone
    reading, writing = os.pipe()
    parent = multiprocessing.Process(target=leave_open, args=(end,))
    parent.start()
    os.close(writing)
    parent.join(60)
    assert parent.exitcode == status
    assert select.select([reading], [], [], 60)[0]
    assert os.read(reading, 1) == b""
    os.close(reading)
