"""LARS as in BYOL's code, over lists of tensors at once.

    g ← g + wd·w                     not for biases and normalisation
    g ← g · trust·‖w‖/‖g‖            if both norms are positive; not for biases and normalisation
    m ← momentum·m + g
    w ← w − lr·m                     the rate stands outside the momentum

Biases and normalisation are the parameters with at most one axis. The field has at least three optimisers of
this name (timm's default adapts only groups that decay, SimCLR's puts the rate inside the momentum), so the
formula is spelled out here and in the test.
"""

from collections.abc import Callable
from typing import Any, final, overload

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import ParamsT


@final
class LARS(Optimizer):
    """Momentum SGD whose step on each weight tensor is proportional to the tensor's norm."""

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor,
        momentum: float = 0.9,
        weight_decay: float = 1e-6,
        trust: float = 1e-3,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust}
        for name, value in defaults.items():
            if value < 0:
                raise ValueError(f"{name} must not be negative, but is {value}")
        super().__init__(params, defaults)

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One update of every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._update_(group)
        return loss

    def _update_(self, group: dict[str, Any]) -> None:
        params: list[Tensor] = [p for p in group["params"] if p.grad is not None]
        if not params:
            return
        # weights first, so that the adapted gradients are a prefix of the list
        params.sort(key=lambda p: p.ndim <= 1)
        num_adapted = sum(p.ndim > 1 for p in params)
        weights = params[:num_adapted]
        grads = [p.grad for p in params if p.grad is not None]
        if weights:
            adapted = torch._foreach_add(grads[:num_adapted], weights, alpha=group["weight_decay"])
            w_norm = torch.stack(torch._foreach_norm(weights))
            g_norm = torch.stack(torch._foreach_norm(list(adapted)))
            ratio = torch.where((w_norm > 0) & (g_norm > 0), group["trust"] * w_norm / g_norm, 1.0)
            torch._foreach_mul_(list(adapted), list(ratio.unbind()))
            grads[:num_adapted] = adapted
        momenta: list[Tensor] = []
        for p in params:
            state = self.state[p]
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(p)
            momenta.append(state["momentum"])
        torch._foreach_mul_(momenta, group["momentum"])
        torch._foreach_add_(momenta, grads)
        if isinstance(lr := group["lr"], Tensor):  # read by the device when its turn comes
            torch._foreach_sub_(params, torch._foreach_mul(momenta, lr))
        else:
            torch._foreach_add_(params, momenta, alpha=-lr)
