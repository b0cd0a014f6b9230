"""Every draw is a function of (seed, name, step), so a resumed run needs no saved random state."""

import hashlib

import torch
from torch import Tensor

from semppl.core.share import Rows


def stream(seed: int, name: str, step: int = 0) -> int:
    """An independent 63-bit seed for one named source of randomness at one step."""
    digest = hashlib.blake2b(f"{seed}/{name}/{step}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generator(
    seed: int, name: str, step: int = 0, device: torch.device | str | None = None
) -> torch.Generator:
    """A generator for that source at that step; adding a draw to one stream disturbs no other."""
    return torch.Generator(device=device or "cpu").manual_seed(stream(seed, name, step))


def uniforms(count: int, rows: Rows | int, generator: torch.Generator) -> Tensor:
    """Numbers in [0, 1) [count, rows] for so many rows, or for some rows of a larger batch.

    They are drawn for the whole batch, so that the shares of several processes are what one would have drawn.
    """
    total = rows if isinstance(rows, int) else rows.total
    u = torch.rand(count, total, generator=generator, device=generator.device)
    return u if isinstance(rows, int) else u[:, rows.slice]
