"""Advice for cells that share a GPU. Processes take turns on it, unless NVIDIA's multi-process service lets
them compute at the same time: a fifth faster where it was measured (docs/performance.md).
"""

import os
import shutil
from pathlib import Path
from typing import Final

import torch

from semppl.core.counted import counted

_CONTROL: Final = "nvidia-cuda-mps-control"
_USUAL_PLACE: Final = "/tmp/nvidia-mps"


def sharing_advice(device: torch.device, jobs: int) -> str | None:
    """A line for somebody who could have it and has not."""
    gpus = torch.cuda.device_count() if str(device) == "cuda" else 1
    if device.type != "cuda" or jobs <= gpus or shutil.which(_CONTROL) is None:
        return None
    if (Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", _USUAL_PLACE)) / "control").exists():
        return None
    return (
        f"{jobs} cells share {counted(gpus, 'GPU')} and take turns: with NVIDIA's multi-process "
        f"service ({_CONTROL} -d before this command) they would compute at the same time, and end sooner"
    )
