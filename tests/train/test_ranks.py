import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist
from tests.train.world import in_ranks

from semppl.core.errors import RunError, UserError
from semppl.core.share import Share
from semppl.train.ranks import ALONE, device_of_rank, joined, launched, norm_group


def test_alone_nothing_has_to_be_agreed_on():
    x = torch.rand(2, 3)
    assert ALONE.gather(x, 3, dim=1) is x
    assert (ALONE.world, ALONE.main, ALONE.largest(7), ALONE.from_main("a")) == (1, True, 7, "a")
    assert ALONE.together(lambda: 5) == ALONE.one_after_first("x", lambda: 5) == 5
    ALONE.copy_from_main_([x])
    assert norm_group(ALONE, None) is None


def gathered(ranks, device):
    """Rows 10·r, 10·r + 1, …; the loss weighs row b by b + 1, and all ranks have it in common."""
    answers = {}
    for total in (6, 7, 3):
        rows = ranks.rows(total)
        mine = torch.arange(rows.start, rows.stop, dtype=torch.float).repeat(2, 1)[..., None].requires_grad_()
        whole = ranks.gather(mine, total, dim=1)
        (whole * torch.arange(1.0, total + 1)[:, None]).sum().backward()
        answers[total] = (whole.detach(), mine.grad)
    return answers, ranks.gathered_bytes


@pytest.mark.parametrize("world", [2, 3])
def test_gathered_rows_are_in_order_and_each_rank_has_the_gradient_of_its_own_unscaled(world):
    for rank, (answers, received) in enumerate(in_ranks(world, gathered)):
        for total, (whole, gradient) in answers.items():
            rows = Share(rank, world).rows(total)
            assert whole[..., 0].tolist() == [list(range(total))] * 2
            assert gradient[0, :, 0].tolist() == [b + 1.0 for b in range(rows.start, rows.stop)]
        most = {total: -(-total // world) for total in answers}
        assert received == sum(most[total] * (world - 1) * 2 * 4 for total in answers)


def agreed(ranks, device):
    heard = [ranks.largest(ranks.share.rank * 3), ranks.from_main(f"of {ranks.share.rank}"), ranks.main]
    buffer = torch.full((2,), float(ranks.share.rank + 5))
    ranks.copy_from_main_([buffer])
    order = ranks.one_after_first("x", time.monotonic)
    return [*heard, buffer.tolist(), order]


def test_ranks_agree_and_the_first_of_a_machine_goes_first():
    answers = in_ranks(3, agreed)
    assert [answer[:2] for answer in answers] == [[6, "of 0"]] * 3
    assert [answer[2] for answer in answers] == [True, False, False]
    assert [answer[3] for answer in answers] == [[5.0, 5.0]] * 3
    assert all(answers[0][4] < answer[4] for answer in answers[1:])


def failing(ranks, device, who, kind):
    def work():
        if ranks.share.rank in who:
            raise kind(f"of {ranks.share.rank}")
        return "fine"

    try:
        return ranks.together(work)
    except (UserError, RunError) as error:
        return type(error).__name__, str(error)


def test_where_one_fails_all_do_and_only_the_first_says_why():
    assert in_ranks(2, failing, (), UserError) == ["fine", "fine"]
    answers = in_ranks(3, failing, (1, 2), UserError)
    assert answers[1] == ("RunError", "of 1")
    assert answers[0][0] == answers[2][0] == "Elsewhere"
    assert in_ranks(2, failing, (0, 1), UserError)[0] == ("UserError", "of 0")


def grouped(ranks, device, size):
    group = norm_group(ranks, size)
    if group is None:
        return None
    x = torch.tensor(1.0)
    dist.all_reduce(x, group=group)
    return x.item()


def test_groups_share_statistics_of_neighbours():
    assert in_ranks(4, grouped, 2) == [2.0] * 4
    assert in_ranks(2, grouped, None) == [2.0] * 2
    assert in_ranks(2, grouped, 1) == [None] * 2


def test_a_group_that_does_not_divide_the_ranks_is_refused():
    class Three:
        group, world, share = object(), 3, Share(0, 3)

    with pytest.raises(UserError, match=r"--net\.norm-ranks 2 does not divide 3 ranks"):
        norm_group(Three(), 2)


def hung(ranks, device, how):
    """Rank 1 stops, as a whole or in its own work; the others meet."""
    ranks.largest(0)
    if ranks.share.rank == 1:
        if how == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(30)
    try:
        ranks.largest(0)
    except RunError as error:
        return str(error)
    return "nothing happened"


def test_a_rank_that_does_not_answer_is_named():
    """Both kinds at once, since each takes what a rank waits."""
    with ThreadPoolExecutor() as threads:
        worlds = [
            threads.submit(in_ranks, 2, hung, how, timeout=4.0, expected=[0]) for how in ("stopped", "busy")
        ]
    for world in worlds:
        assert world.result() == ["rank 1 of 2 does not answer: the job ends here; go on with --resume"]


def test_other_errors_are_not_blamed_on_ranks():
    with pytest.raises(RuntimeError, match="shape"), ALONE.blaming():
        raise RuntimeError("shape")


def test_what_torchrun_says(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert launched() is None
    with joined("cpu", 5.0) as (ranks, device):
        assert ranks is ALONE
        assert device.type == "cpu"
    told = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    launch = launched()
    assert (launch.share, launch.local) == (Share(3, 8), Share(1, 2))


def test_each_process_of_a_machine_has_a_gpu_of_its_own(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert device_of_rank("auto", Share(1, 2)) == torch.device("cuda", 1)
    assert device_of_rank("cpu", Share(1, 2)) == torch.device("cpu")
    assert device_of_rank("cuda:0", Share(1, 2)) == torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("SLURM_LOCALID", "1")
    assert device_of_rank("auto", Share(1, 2)) == torch.device("cuda", 0)
    monkeypatch.delenv("SLURM_LOCALID")
    with pytest.raises(UserError, match=r"2 processes and 1 GPU on .*--nproc-per-node 1"):
        device_of_rank("auto", Share(1, 2))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UserError, match=r"4 processes and 2 GPUs.*--nproc-per-node 2"):
        device_of_rank("auto", Share(3, 4))


def unreachable(ranks, device):
    """What is blamed on others, and what is not."""
    said = []
    for words in ("gloo: Connection closed by peer", "gloo: Timed out waiting", "shape"):
        try:
            with ranks.blaming():
                raise RuntimeError(words)  # noqa: TRY301
        except (RunError, RuntimeError) as error:
            said.append(type(error).__name__)
    return said


def test_only_what_comes_from_others_is_blamed_on_them():
    assert in_ranks(2, unreachable) == [["Elsewhere", "RunError", "RuntimeError"]] * 2


def written(ranks, device):
    def work():
        if ranks.main:
            raise OSError(28, "No space left on device", "runs/x")

    try:
        ranks.together(work)
    except RunError as error:
        return str(error)


def test_a_disk_that_fails_on_one_rank_is_one_line():
    assert in_ranks(2, written)[0] == "runs/x: No space left on device: see to it, and start again"
