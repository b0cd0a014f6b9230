import signal

import pytest
import torch
from tests.train.world import in_ranks

from semppl.evaluate.bookmark import steps_left
from semppl.protocols import bookmarks
from semppl.protocols.bookmarks import BookmarkFile
from semppl.train.interrupt import Interrupted
from semppl.train.ranks import ALONE

FACTS = {"rate": 0.1, "labels": "abc", "view": (8, 8)}


def trained(folder, *, steps=4, facts=FACTS, every=1e9, seconds=0.0, ranks=ALONE, happens=None, hears=None):
    """A training that adds 1 in each step, which takes some seconds: steps done, the sum, what was said."""
    said, total, now, done = [], torch.zeros(1), [0.0], []
    file = BookmarkFile(
        path=folder / "deep" / "seed0.ckpt",
        facts=facts,
        steps=steps,
        title="counting",
        say=hears or said.append,
        ranks=ranks,
        every=every,
        clock=lambda: now[0],
    )
    with file.open() as bookmark:
        for step in steps_left(steps, {"total": total}, bookmark):
            done.append(step)
            total += 1
            now[0] += seconds
            if happens:
                happens(step)
    return done, total.item(), said


def raising(error, at):
    def happens(step):
        if step == at:
            raise error

    return happens


def signalled(signum, at):
    return lambda step: signal.raise_signal(signum) if step == at else None


def test_a_training_that_is_over_is_kept_and_not_done_again(tmp_path):
    assert trained(tmp_path) == ([0, 1, 2, 3], 4.0, [])
    assert trained(tmp_path) == ([], 4.0, ["counting: goes on at step 4 of 4"])


@pytest.mark.parametrize(("every", "left"), [(1e9, [0, 1, 2, 3, 4, 5]), (25.0, [3, 4, 5]), (10.0, [5])])
def test_what_a_kill_leaves_is_the_last_copy_of_every_few_seconds(tmp_path, every, left):
    with pytest.raises(MemoryError):
        # of a step of 10 s each, the sixth fails: copies after 30 s, or after each
        trained(tmp_path, steps=6, every=every, seconds=10.0, happens=raising(MemoryError(), 5))
    done, total, said = trained(tmp_path, steps=6)
    assert (done, total) == (left, 6.0)
    assert said == ([] if left[0] == 0 else [f"counting: goes on at step {left[0]} of 6"])


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("at", [0, 2, 3])
def test_a_signal_stops_after_the_step_and_loses_nothing(tmp_path, signum, at):
    before = signal.getsignal(signum)
    with pytest.raises(
        Interrupted, match=rf"stopped at step {at + 1} of 4 \(counting\), which is kept"
    ) as caught:
        trained(tmp_path, happens=signalled(signum, at))
    assert caught.value.signum == signum
    assert signal.getsignal(signum) is before
    assert trained(tmp_path)[:2] == (list(range(at + 1, 4)), 4.0)


def test_a_second_ctrl_c_stops_at_once(tmp_path):
    def twice(_):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, happens=twice)
    assert not list(tmp_path.rglob("*.ckpt"))


def test_a_signal_where_no_step_is_left_stops_too(tmp_path):
    trained(tmp_path)
    with pytest.raises(Interrupted, match="stopped after counting") as caught:
        trained(tmp_path, hears=lambda _: signal.raise_signal(signal.SIGTERM))
    assert caught.value.signum == signal.SIGTERM


@pytest.mark.parametrize(
    ("change", "odd"),
    [
        ({"rate": 0.2}, "rate"),
        ({"labels": "abd", "rate": 0.2}, "labels, rate"),
        ({"view": (8, 9)}, "view"),
        ({"more": None, "most": 1}, "most"),
    ],
)
def test_a_bookmark_of_another_training_is_not_used_and_replaced(tmp_path, change, odd):
    trained(tmp_path, facts={**FACTS, **change})
    path = tmp_path / "deep" / "seed0.ckpt"
    words = f"{path} is of another training (other {odd}): counting begins anew"
    assert trained(tmp_path) == ([0, 1, 2, 3], 4.0, [words])
    assert trained(tmp_path)[0] == []


def cut(path):
    path.write_bytes(path.read_bytes()[:-300])


def flipped(path):
    content = bytearray(path.read_bytes())
    at = content.index(b"\x00\x00\x80\x40")  # the number 4.0
    content[at] ^= 1
    path.write_bytes(content)


def empty(path):
    path.write_bytes(b"")


def other(path):
    torch.save({"format": 1}, path)


@pytest.mark.parametrize("damage", [cut, flipped, empty, other])
def test_a_damaged_bookmark_is_not_used_and_replaced(tmp_path, damage):
    trained(tmp_path)
    path = tmp_path / "deep" / "seed0.ckpt"
    damage(path)
    assert trained(tmp_path) == ([0, 1, 2, 3], 4.0, [f"{path} cannot be read: counting begins anew"])
    assert trained(tmp_path)[0] == []


def test_a_full_disk_stops_no_training(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    trained(tmp_path, steps=2)
    monkeypatch.setattr(bookmarks, "write_atomically", full)
    done, total, said = trained(tmp_path, steps=4)
    assert (done, total) == ([2, 3], 4.0)
    assert said[1:] == [
        f"{tmp_path / 'deep' / 'seed0.ckpt'} cannot be written (No space left on device): counting goes on "
        "without"
    ]
    with pytest.raises(Interrupted, match=r"at step 3 of 4 \(counting\), which could not be kept"):
        trained(tmp_path, happens=signalled(signal.SIGTERM, 2))


def in_a_rank(ranks, device, folder):
    """The folder of each rank is its own, as on disks that are not shared."""
    mine = folder / str(ranks.share.rank)
    first = trained(mine, steps=3, ranks=ranks)
    return first, trained(mine, steps=5, ranks=ranks), sorted(path.name for path in mine.rglob("*.ckpt"))


def test_the_main_rank_writes_and_all_go_on_where_it_does(tmp_path):
    said = ["counting: goes on at step 3 of 5"]
    whole, rest = ([0, 1, 2], 3.0, []), ([3, 4], 5.0, said)
    assert in_ranks(2, in_a_rank, tmp_path) == [(whole, rest, ["seed0.ckpt"]), (whole, rest, [])]
