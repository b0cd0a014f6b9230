"""Several ranks on one machine, each a process, as torchrun would start them."""

import io
import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch

from semppl.train.ranks import joined

# one process imports torch and all that tests import, and every rank is a copy of it
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["semppl.train.pretrain", "semppl.protocols.run", "semppl.fit.run", "pytest"])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def in_ranks(
    world: int,
    work: Callable[..., Any],
    *arguments: Any,
    timeout: float = 60.0,
    expected: Sequence[int] | None = None,
) -> list[Any]:
    """`work(ranks, device, *arguments)` on each of `world` ranks: what the expected ones return."""
    port, pipes, processes = free_port(), [], []
    for rank in range(world):
        mine, theirs = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(
            target=_rank, args=(theirs, rank, world, port, timeout, work, arguments), daemon=True
        )
        process.start()
        pipes.append(mine)
        processes.append(process)
    try:
        answers = []
        for rank, pipe in enumerate(pipes):
            if expected is not None and rank not in expected:
                continue
            assert pipe.poll(timeout + 30), f"rank {rank} did not answer"
            answers.append(torch.load(io.BytesIO(pipe.recv_bytes()), weights_only=False))
    finally:
        for process in processes:
            process.join(5 if expected is None else 0)
            process.kill()
    for rank, (fine, answer) in enumerate(answers):
        assert fine, f"rank {rank}:\n{answer}"
    return [answer for _, answer in answers]


def _rank(pipe, rank, world, port, timeout, work, arguments) -> None:
    torch.set_num_threads(1)
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    try:
        with joined("cpu", timeout) as (ranks, device):
            answer = (True, work(ranks, device, *arguments))
    except BaseException:  # noqa: BLE001 - the test that started it shall see it
        answer = (False, traceback.format_exc())
    content = io.BytesIO()
    torch.save(answer, content)
    pipe.send_bytes(content.getvalue())
