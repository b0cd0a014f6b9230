"""The state of a run spread over several ranks: gradients are added up, batch norm sees the whole batch."""

import warnings
from inspect import signature
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from semppl.nets.shared_norm import share_statistics_
from semppl.train.ranks import Ranks, norm_group
from semppl.train.state import TrainState

# statistics are alike by themselves, or meant to differ; torch has renamed the word for it
_INIT = signature(DistributedDataParallel.__init__).parameters
_NO_BUFFERS: dict[str, Any] = {
    "forward_sync_buffers" if "forward_sync_buffers" in _INIT else "broadcast_buffers": False
}


def spread_(state: TrainState, ranks: Ranks, norm_ranks: int | None) -> None:
    """Every rank holds the same weights, starts from those of the main one, and adds its gradients to
    theirs.

    `norm_ranks` share batch statistics: all (None), groups of so many, or nobody (1).
    """
    if ranks.group is None:
        return
    group = norm_group(ranks, norm_ranks)
    if group is not None:
        share_statistics_(state.predict, group)
        if state.target is not None:
            share_statistics_(state.target.module, group)
    # layouts of 1×1 kernels that mean the same
    warnings.filterwarnings("ignore", message="Grad strides do not match bucket view strides")
    parallel = DistributedDataParallel(
        state.predict, process_group=ranks.group, gradient_as_bucket_view=True, **_NO_BUFFERS
    )
    parallel.register_comm_hook(ranks.group, added_up)
    state.predict = parallel


def added_up(group: dist.ProcessGroup, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """The sum, where the library would take the mean: all ranks have the loss of the whole batch."""
    work = dist.all_reduce(bucket.buffer(), group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])
