"""What a run changes."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._pytree import tree_map_only

from semppl.method.queue import LabelledQueue
from semppl.method.target import Target
from semppl.nets.heads import Projected
from semppl.train.encode import Predict

_PROJECTOR = "projector."
# options of an optimiser that belong to the device it runs on, so a checkpoint does not decide on them
OF_DEVICE = ("fused", "foreach", "capturable")


@dataclass
class TrainState:
    """Weights, target, queue, optimiser and clock; `target` and `queue` are None where a method has none."""

    online: Projected
    predictor: nn.Module
    target: Target[Projected] | None
    queue: LabelledQueue | None
    optimizer: Optimizer
    step: int = 0
    predict: nn.Module = field(init=False)
    """Views → predictions; several ranks wrap it."""

    def __post_init__(self) -> None:
        self.predict = Predict(self.online, self.predictor)

    def set_lr_(self, lr: float | Tensor) -> None:
        """For the next update."""
        for group in self.optimizer.param_groups:
            group["lr"] = lr

    def state_dict(self) -> dict[str, Any]:
        """Everything; random draws need no state, being functions of the step."""
        return {
            "online": self.online.state_dict(),
            "predictor": self.predictor.state_dict(),
            "target": None if self.target is None else self.target.state_dict(),
            "queue": None if self.queue is None else self.queue.state_dict(),
            "optimizer": self._optimizer_state(),
            "step": self.step,
        }

    def _optimizer_state(self) -> dict[str, Any]:
        state = self.optimizer.state_dict()
        groups = [{**group, "lr": float(group["lr"])} for group in state["param_groups"]]
        return {**state, "param_groups": groups}

    def load_state_dict_(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.load_weights_(state)
        if self.queue is not None:
            self.queue.load_state_dict(state["queue"])
        groups = zip(self.optimizer.param_groups, state["optimizer"]["param_groups"], strict=True)
        options = [
            {**stored, **{name: mine[name] for name in OF_DEVICE if name in mine}} for mine, stored in groups
        ]
        self.optimizer.load_state_dict({**state["optimizer"], "param_groups": options})
        self._match_layout_()
        self.step = state["step"]

    def _match_layout_(self) -> None:
        """Fused optimisers insist that buffers lie in memory as their weights do, which differs by device."""
        for weight, buffers in self.optimizer.state.items():
            for name, value in buffers.items():
                if isinstance(value, Tensor) and value.shape == weight.shape:
                    buffers[name] = torch.empty_like(weight).copy_(value)

    def snapshot(self) -> dict[str, Any]:
        """The same, in tensors that no step will change."""
        return tree_map_only(Tensor, torch.clone, self.state_dict())

    def restore_(self, snapshot: dict[str, Any]) -> None:
        """Go back to it; every tensor stays where it lies, so that a recorded step finds it."""
        for module, name in ((self.online, "online"), (self.predictor, "predictor")):
            module.load_state_dict(snapshot[name])
        if self.target is not None:
            self.target.load_state_dict(snapshot["target"])
        if self.queue is not None:
            self.queue.load_state_dict(snapshot["queue"])
        before = snapshot["optimizer"]["state"]
        for number, buffers in self.optimizer.state_dict()["state"].items():
            for name, value in buffers.items():
                if isinstance(value, Tensor):  # what was not there yet starts from zero
                    old = before.get(number, {}).get(name)
                    value.zero_() if old is None else value.copy_(old)
        self.step = snapshot["step"]

    def load_weights_(self, state: dict[str, Any]) -> list[str]:
        """Start from those weights, with everything else fresh; names the heads that the weights lack."""
        fresh = [] if load_online_(self.online, state["online"]) else ["projector"]
        if state["predictor"] is None:
            fresh.append("predictor")
        else:
            self.predictor.load_state_dict(state["predictor"])
        if self.target is not None:
            self.target.load_state_dict(state["target"] or self.online.state_dict())
        return fresh


def has_projector(weights: dict[str, Tensor]) -> bool:
    """Weights from elsewhere may be those of an encoder alone."""
    return any(name.startswith(_PROJECTOR) for name in weights)


def load_online_(online: Projected, weights: dict[str, Tensor]) -> bool:
    """Fill f and g; where g has no weights it stays: False."""
    if has_projector(weights):
        online.load_state_dict(weights)
        return True
    own = {name: value for name, value in online.state_dict().items() if name.startswith(_PROJECTOR)}
    online.load_state_dict(weights | own)
    return False
