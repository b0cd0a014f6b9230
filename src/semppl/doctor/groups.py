"""Can processes on this machine form a group? Found out by making one of a single process."""

import tempfile
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore


def try_group(backend: str, device: torch.device) -> str | None:
    """What went wrong, or None where a group was made and added up a number."""
    if not dist.is_available() or not dist.is_backend_available(backend):
        return "this torch was built without it"
    if dist.is_initialized():
        return None
    with tempfile.TemporaryDirectory() as folder:
        try:
            dist.init_process_group(
                backend,
                store=FileStore(str(Path(folder) / "store"), 1),
                rank=0,
                world_size=1,
                timeout=timedelta(seconds=30),
                # the library wants to know which GPU, even where there is one alone
                device_id=torch.device("cuda", device.index or 0) if device.type == "cuda" else None,
            )
            told = torch.ones(1, device=device)
            dist.all_reduce(told)
            return None if float(told) == 1.0 else f"one process added up its 1 to {float(told):g}"
        except (RuntimeError, ValueError, OSError) as error:  # DistError is a RuntimeError
            return (str(error).splitlines() or [type(error).__name__])[0]
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()
