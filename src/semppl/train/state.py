"""What a run changes, and its checkpoint."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory, write_atomically
from semppl.method.queue import LabelledQueue
from semppl.method.target import Target
from semppl.nets.heads import Projected

FORMAT = 1
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


def load_online_(online: Projected, weights: dict[str, Tensor]) -> bool:
    """Fill f and g; weights from elsewhere may be those of an encoder alone, and g then stays: False."""
    if any(name.startswith(_PROJECTOR) for name in weights):
        online.load_state_dict(weights)
        return True
    own = {name: value for name, value in online.state_dict().items() if name.startswith(_PROJECTOR)}
    online.load_state_dict(weights | own)
    return False


def save_checkpoint(run: RunDirectory, state: TrainState, facts: dict[str, Any], *, keep: int) -> Path:
    """Write checkpoints/step-XXXXXXXX.ckpt atomically, point `last` at it, drop all but the newest `keep`."""
    path = write_checkpoint(run, state.state_dict(), facts)
    link = run.checkpoints / ".last.new"
    link.unlink(missing_ok=True)
    link.symlink_to(path.name)
    link.replace(run.checkpoints / "last")
    for old in sorted(run.checkpoints.glob("step-*.ckpt"))[: -max(keep, 1)]:
        old.unlink()
    return path


def write_checkpoint(run: RunDirectory, state: dict[str, Any], facts: dict[str, Any]) -> Path:
    """The file itself, written as a whole or not at all."""
    path = run.checkpoints / f"step-{state['step']:08d}.ckpt"
    content = {"format": FORMAT, **facts, "state": state}
    write_atomically(path, lambda file: torch.save(content, file))
    return path


def newest_checkpoint(run: RunDirectory) -> Path | None:
    """The checkpoint to go on from, or None where none was written yet."""
    return max(run.checkpoints.glob("step-*.ckpt"), default=None)


def required_checkpoint(run: RunDirectory) -> Path:
    """The same, where there must be one."""
    if (path := newest_checkpoint(run)) is None:
        raise UserError(
            f"{run.path}: no checkpoint yet: go on with `semppl pretrain --resume --out {run.path}`"
        )
    return path


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Tensors and plain values only, on the CPU: nothing in the file is executed."""
    if not path.is_file():
        raise UserError(f"{path}: no such checkpoint")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged or foreign file fails in many ways
        raise UserError(f"{path}: not a readable checkpoint of ours") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UserError(f"{path}: not a checkpoint of this version")
    return content
