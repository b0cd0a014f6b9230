"""Several processes that train together: who has which rows of a batch, and what they tell each other.

Each rank encodes its own rows. What the encoders made is then gathered, and every rank does the rest of the
step for the whole batch (queue, positives, negatives, loss), all alike; only the votes are shared out again.
So a rank computes the loss that one process would, negatives come from the whole batch, queues are the same
everywhere, and no gradient has to be scaled: each rank differentiates the loss by its own rows, and the sum
over ranks is the gradient.

Numbers travel by the group's device backend, NCCL or gloo; what hosts agree on (a signal, an error, the end
of a pause) travels by gloo.
"""

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar, final

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from semppl.core.counted import counted
from semppl.core.errors import Elsewhere, RunError, UserError
from semppl.core.share import WHOLE, Rows, Share
from semppl.train.device import choose_device
from semppl.train.heartbeat import Heartbeat

T = TypeVar("T")
# what only the host of data may need, such as listing a million files, may take so long
_PREPARING: Final = timedelta(hours=12)


@final
class Ranks:
    """What a process knows of the others. Alone (`ALONE`), all of it is trivial."""

    def __init__(
        self,
        share: Share = WHOLE,
        *,
        local: Share = WHOLE,
        group: dist.ProcessGroup | None = None,
        store: Store | None = None,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        self.share, self.local, self.group = share, local, group
        self._store, self._heartbeat = store, heartbeat
        self.gathered_bytes = 0
        """Of other ranks, so far."""

    @property
    def world(self) -> int:
        """How many there are."""
        return self.share.world

    @property
    def main(self) -> bool:
        """Whether this is the one that writes and speaks."""
        return self.share.rank == 0

    def rows(self, total: int) -> Rows:
        """This rank's rows of a batch."""
        return self.share.rows(total)

    def gather(self, mine: Tensor, total: int, dim: int) -> Tensor:
        """The rows of all ranks along `dim`, `total` of them; gradients flow back to this rank's own.

        Written by hand because torch's differentiable gather adds up the gradients of all ranks, which is
        right for losses that differ and wrong, by a factor of their number, for one that all have in common.
        """
        if self.group is None:
            return mine
        return _Gather.apply(mine, self, total, dim)

    def _gathered(self, mine: Tensor, total: int, dim: int) -> Tensor:
        """Ranks with a row less than others send a row of zeros that nobody reads."""
        rows_bX, most = mine.movedim(dim, 0).contiguous(), -(-total // self.world)
        if len(rows_bX) < most:
            rows_bX = torch.cat([rows_bX, rows_bX.new_zeros(most - len(rows_bX), *rows_bX.shape[1:])])
        all_BX = rows_bX.new_empty(self.world * most, *rows_bX.shape[1:])
        with self.blaming():
            dist.all_gather_into_tensor(all_BX, rows_bX, group=self.group)
        self.gathered_bytes += (all_BX.numel() - rows_bX.numel()) * all_BX.element_size()
        if total != len(all_BX):
            sizes = [len(Share(rank, self.world).rows(total)) for rank in range(self.world)]
            all_BX = torch.cat([part[:n] for part, n in zip(all_BX.split(most), sizes, strict=True)])
        return all_BX.movedim(0, dim)

    def largest(self, value: int) -> int:
        """Of the numbers of all ranks; a rank that does not answer ends the job and is named."""
        if self.group is None:
            return value
        if self._heartbeat is not None:
            self._heartbeat.round += 1
        answer = torch.tensor(value)
        with self.blaming():
            dist.all_reduce(answer, dist.ReduceOp.MAX, group=self.group)
        return int(answer)

    @contextmanager
    def blaming(self) -> Iterator[None]:
        """Where the others cannot be reached any more, the error says who is missing."""
        try:
            yield
        except RuntimeError as error:
            if self.group is None or not (isinstance(error, dist.DistError) or "gloo" in str(error)):
                raise
            silent = [] if self._heartbeat is None else self._heartbeat.silent()
            if not silent and "imed out" not in str(error):
                raise Elsewhere("another rank has left the job") from error
            if not silent:
                raise RunError(
                    f"ranks wait for each other in vain: go on with --resume, or with another number of them "
                    f"than {self.world}"
                ) from error
            names = ", ".join(map(str, silent))
            raise RunError(
                f"rank {names} of {self.world} does not answer: the job ends here; go on with --resume"
            ) from error

    def together(self, work: Callable[[], T]) -> T:
        """Do something on every rank; where it fails anywhere it fails everywhere, and one says why."""
        if self.group is None:
            return work()
        result: T | None = None
        mine: UserError | RunError | None = None
        try:
            result = work()
        except (UserError, RunError) as error:
            mine = error
        except OSError as error:
            mine = RunError(f"{error.filename or 'a file'}: {error.strerror}: see to it, and start again")
        failed = self.of_all(mine is not None)
        if mine is not None and not any(failed[: self.share.rank]):
            raise mine if self.main else RunError(str(mine))
        if any(failed):
            raise Elsewhere("another rank says why")
        return result  # type: ignore[return-value]

    def of_all(self, value: T) -> list[T]:
        """What each rank has, in their order."""
        if self.group is None:
            return [value]
        values: list[Any] = [None] * self.world
        with self.blaming():
            dist.all_gather_object(values, value, group=self.group)
        return values

    def from_main(self, value: T) -> T:
        """What the main rank has."""
        if self.group is None:
            return value
        box = [value]
        with self.blaming():
            dist.broadcast_object_list(box, src=0, group=self.group)
        return box[0]

    def copy_from_main_(self, tensors: Iterable[Tensor]) -> None:
        """Make them what the main rank has."""
        if self.group is None:
            return
        with self.blaming():
            for tensor in tensors:
                dist.broadcast(tensor, src=0, group=self.group)

    def one_after_first(self, name: str, work: Callable[[], T]) -> T:
        """On each machine one process goes first, so that the others find what it has cached."""
        if self._store is None or self.local.world == 1:
            return work()
        key = f"semppl/first/{name}/{self.share.rank // self.local.world}"
        if self.local.rank:
            self._store.wait([key], _PREPARING)
        try:
            return work()
        finally:
            if not self.local.rank:
                self._store.set(key, "done")


ALONE: Final = Ranks()


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mine: Tensor, ranks: Ranks, total: int, dim: int) -> Tensor:
        ctx.rows, ctx.dim = ranks.rows(total), dim
        return ranks._gathered(mine, total, dim)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return grad.narrow(ctx.dim, ctx.rows.start, len(ctx.rows)), None, None, None


@dataclass(frozen=True)
class Launch:
    """What `torchrun` told this process."""

    share: Share
    local: Share
    restarts: int


def launched() -> Launch | None:
    """None for a process that was started by hand."""
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return None
    number = {name: int(os.environ.get(name, default)) for name, default in _NUMBERS.items()}
    return Launch(
        Share(number["RANK"], number["WORLD_SIZE"]),
        Share(number["LOCAL_RANK"], number["LOCAL_WORLD_SIZE"]),
        number["TORCHELASTIC_RESTART_COUNT"],
    )


_NUMBERS: Final = {
    "RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
    "TORCHELASTIC_RESTART_COUNT": "0",
}


def device_of_rank(name: str, local: Share) -> torch.device:
    """One GPU for each process of a machine; a GPU named by its number is shared by all of them."""
    if name in ("auto", "cuda") and torch.cuda.is_available():
        if torch.cuda.device_count() == 1 and "SLURM_LOCALID" in os.environ:  # it shows each task its own
            return torch.device("cuda", 0)
        if local.rank >= torch.cuda.device_count():
            raise UserError(
                f"{local.world} processes and {counted(torch.cuda.device_count(), 'GPU')} on "
                f"{socket.gethostname()}: start torchrun with --nproc-per-node {torch.cuda.device_count()}"
            )
        return torch.device("cuda", local.rank)
    return choose_device(name)


@contextmanager
def joined(device: str, timeout: float) -> Iterator[tuple[Ranks, torch.device]]:
    """The group that torchrun started, or this process alone; left at the end, whatever happens."""
    launch = launched()
    if launch is None:
        yield ALONE, choose_device(device)
        return
    here = device_of_rank(device, launch.local)
    if here.type == "cuda":
        torch.cuda.set_device(here)
    of_its_own = here.type == "cuda" and (launch.local.world == 1 or device in ("auto", "cuda"))
    # torchrun keeps its store when it starts the ranks again: what was said before is not for these
    server, _, _ = next(rendezvous("env://"))
    store = PrefixStore(f"semppl/{launch.restarts}", server)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if of_its_own else "gloo",
        store=store,
        rank=launch.share.rank,
        world_size=launch.share.world,
        timeout=timedelta(seconds=timeout),
        device_id=here if of_its_own else None,
    )
    heartbeat = Heartbeat(store, launch.share.rank, launch.share.world)
    try:
        group = dist.group.WORLD
        yield Ranks(launch.share, local=launch.local, group=group, store=store, heartbeat=heartbeat), here
    finally:
        heartbeat.close()
        dist.destroy_process_group()


def norm_group(ranks: Ranks, size: int | None) -> dist.ProcessGroup | None:
    """The ranks that share batch statistics with this one: all, or `size` neighbours; None: nobody else."""
    if ranks.group is None or size == 1:
        return None
    if size is None or size == ranks.world:
        return ranks.group
    if size < 1 or ranks.world % size:
        raise UserError(f"--net.norm-ranks {size} does not divide {ranks.world} ranks into equal groups")
    mine = None
    for start in range(0, ranks.world, size):
        members = list(range(start, start + size))
        group = dist.new_group(members)
        mine = group if isinstance(group, dist.ProcessGroup) and ranks.share.rank in members else mine
    return mine
