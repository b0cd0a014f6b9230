"""Batch norm over the rows of several processes. Shapes: B images of this process, C channels."""

from typing import Any, Final, cast, final

import torch
import torch.distributed as dist
from timm.layers.norm_act import BatchNormAct2d, convert_sync_batchnorm
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.nn.modules.batchnorm import _BatchNorm

_NONE: Final = nn.Identity()


def share_statistics_(module: nn.Module, group: ProcessGroup) -> None:
    """Every batch norm below `module` sees the rows of all processes in the group; weights stay where they
    are.
    """
    if next(module.parameters()).device.type == "cuda":
        convert_sync_batchnorm(module, group)  # type: ignore[no-untyped-call]
        return
    for name, child in list(module.named_modules()):
        if isinstance(child, _BatchNorm):
            parent, _, leaf = name.rpartition(".")
            setattr(module.get_submodule(parent), leaf, SharedBatchNorm(child, group))


@final
class SharedBatchNorm(_BatchNorm):
    """For CPUs: torch's SyncBatchNorm knows GPUs alone, and what several ranks compute is tested without one.

    Mean and centred squares are summed one after the other, so nothing cancels as in E[x²] − E[x]².
    """

    def __init__(self, norm: _BatchNorm, group: ProcessGroup) -> None:
        super().__init__(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
        self.weight, self.bias = norm.weight, norm.bias
        self.running_mean, self.running_var = norm.running_mean, norm.running_var
        self.num_batches_tracked = norm.num_batches_tracked
        self._group, self.training = group, norm.training
        fused = isinstance(norm, BatchNormAct2d)
        self.drop = cast(nn.Module, norm.drop if fused else _NONE)
        self.act = cast(nn.Module, norm.act if fused else _NONE)

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002 - torch's name
        if input.dim() not in (2, 4):
            raise ValueError(f"expected rows or maps, not {input.dim()} axes")

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """As batch norm does, or a norm that timm has fused with its activation."""
        normed = self._shared(input) if self.training else super().forward(input)
        return self.act(self.drop(normed))

    def _shared(self, x: Tensor) -> Tensor:
        self._check_input_dim(x)
        axes = [0, *range(2, x.dim())]
        shape = [1, -1, *[1] * (x.dim() - 2)]
        count = x.new_tensor([x.numel() / self.num_features])
        sums = _summed(torch.cat([x.sum(axes), count]), self._group)
        total = sums[-1].detach()
        mean_C = sums[:-1] / total
        centred = x - mean_C.view(shape)
        var_C = _summed(centred.square().sum(axes), self._group) / total
        self._follow_(mean_C.detach(), var_C.detach() * total / (total - 1))
        normed = centred * (var_C + self.eps).rsqrt().view(shape)
        return normed * self.weight.view(shape) + self.bias.view(shape) if self.affine else normed

    @torch.no_grad()
    def _follow_(self, mean_C: Tensor, var_C: Tensor) -> None:
        if not self.track_running_stats:
            return
        seen = cast(Tensor, self.num_batches_tracked).add_(1)
        rate = 1.0 / float(seen) if self.momentum is None else self.momentum
        cast(Tensor, self.running_mean).lerp_(mean_C, rate)
        cast(Tensor, self.running_var).lerp_(var_C, rate)


def _summed(mine: Tensor, group: ProcessGroup) -> Tensor:
    """Over the processes; what the sum does to all their outputs comes back to each of them."""
    return _Sum.apply(mine, group)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mine: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group, total = group, mine.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        total = grad.clone()
        dist.all_reduce(total, group=ctx.group)
        return total, None
