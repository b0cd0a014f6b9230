"""The target network: an exponential moving average of the online network (paper, section 2)."""

from copy import deepcopy
from typing import Any, final

import torch
from torch import nn


@final
class Target:
    """A copy of a module that follows it and receives no gradient.

    Only parameters are averaged. The copy stays in training mode and keeps batch statistics of its own, as in
    BYOL.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = deepcopy(module).requires_grad_(False).train()

    @torch.no_grad()
    def __call__(self, *inputs: Any) -> Any:
        """Forward without gradient."""
        return self.module(*inputs)

    @torch.no_grad()
    def update_(self, online: nn.Module, decay: float) -> None:
        """θ_t ← θ_t + (1 − decay)(θ − θ_t): decay 1 keeps the target, 0 copies the online network."""
        if not 0.0 <= decay <= 1.0:
            raise ValueError(f"decay must lie in [0, 1], not {decay}")
        mine, theirs = dict(self.module.named_parameters()), dict(online.named_parameters())
        shapes = [{name: p.shape for name, p in each.items()}.items() for each in (mine, theirs)]
        if odd := sorted({name for name, _ in shapes[0] ^ shapes[1]}):
            raise ValueError(f"online and target differ in parameters: {odd[:3]}")
        # decay 0 as a copy: infinities of the target would survive an average
        if decay == 0.0:
            torch._foreach_copy_(list(mine.values()), [theirs[name] for name in mine])
        else:
            torch._foreach_lerp_(list(mine.values()), [theirs[name] for name in mine], 1.0 - decay)

    def state_dict(self) -> dict[str, Any]:
        """Weights and batch statistics."""
        return self.module.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore them."""
        self.module.load_state_dict(state)
