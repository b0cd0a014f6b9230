"""The target network: an exponential moving average of the online network (paper, section 2)."""

from copy import deepcopy
from typing import Any, Generic, TypeVar, final

import torch
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)


@final
class Target(Generic[M]):
    """A copy of a module that follows it and receives no gradient.

    Only parameters are averaged. The copy stays in training mode and keeps batch statistics of its own, as in
    BYOL.
    """

    def __init__(self, module: M) -> None:
        self.module = deepcopy(module).requires_grad_(False).train()

    @torch.no_grad()
    def __call__(self, *inputs: Any) -> Any:
        """Forward without gradient."""
        return self.module(*inputs)

    @torch.no_grad()
    def update_(self, online: nn.Module, decay: float | Tensor) -> None:
        """θ_t ← θ_t + (1 − decay)(θ − θ_t): decay 1 keeps the target, 0 copies the online network.

        A decay that is a tensor is read by the device when its turn comes, so a recorded step may change it.
        """
        if not isinstance(decay, Tensor) and not 0.0 <= decay <= 1.0:
            raise ValueError(f"decay must lie in [0, 1], not {decay}")
        mine, theirs = dict(self.module.named_parameters()), dict(online.named_parameters())
        shapes = [{name: p.shape for name, p in each.items()}.items() for each in (mine, theirs)]
        if odd := sorted({name for name, _ in shapes[0] ^ shapes[1]}):
            raise ValueError(f"online and target differ in parameters: {odd[:3]}")
        old: list[Tensor] = list(mine.values())
        new: list[Tensor] = [theirs[name] for name in mine]
        if isinstance(decay, Tensor):
            steps = torch._foreach_sub(new, old)
            torch._foreach_mul_(steps, 1.0 - decay)
            torch._foreach_add_(old, steps)
        elif decay == 0.0:  # as a copy: infinities of the target would survive an average
            torch._foreach_copy_(old, new)
        else:
            torch._foreach_lerp_(old, new, 1.0 - decay)

    def state_dict(self) -> dict[str, Any]:
        """Weights and batch statistics."""
        return self.module.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore them."""
        self.module.load_state_dict(state)
