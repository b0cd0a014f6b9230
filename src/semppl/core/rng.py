"""Every draw is a function of (seed, name, step), so a resumed run needs no saved random state."""

import hashlib

import torch


def stream(seed: int, name: str, step: int = 0) -> int:
    """An independent 63-bit seed for one named source of randomness at one step."""
    digest = hashlib.blake2b(f"{seed}/{name}/{step}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generator(
    seed: int, name: str, step: int = 0, device: torch.device | str | None = None
) -> torch.Generator:
    """A generator for that source at that step; adding a draw to one stream disturbs no other."""
    return torch.Generator(device=device or "cpu").manual_seed(stream(seed, name, step))
