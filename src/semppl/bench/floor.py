"""The floor: the encoders alone, all that any method with these views has to pay.

Online: all views forward and backward; target: the large views forward. No augmentation, heads, loss, update.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from semppl.core.recording import CudaRecorder
from semppl.train.state import TrainState
from semppl.train.step import Plan


def floor_step(state: TrainState, plan: Plan, views_A: list[Tensor]) -> Callable[[], None]:
    """One pass of the encoders over views that are there already."""
    if state.target is None:
        raise ValueError("the floor is that of a method with a target network")
    online, target = state.online.encoder, state.target.module.encoder
    parameters = list(online.parameters())

    def step() -> None:
        for parameter in parameters:
            parameter.grad = None
        with plan.autocast():
            features = [plan.nets.encode(online, view) for view in views_A]
            with torch.no_grad():
                for view in views_A[: plan.num_large]:
                    plan.nets.encode(target, view)
        torch.autograd.backward(features, [torch.ones_like(each) for each in features])

    return step


def recorded(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """The same as a CUDA graph."""
    recorder = CudaRecorder(device)
    for _ in range(3):
        recorder.run(step)
    return recorder.record(step)
