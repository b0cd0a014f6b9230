"""The largest batch that is safe: found by trying on a GPU, by two measurements of memory on a CPU."""

from collections.abc import Callable
from typing import Final

HEAD_ROOM: Final = 0.2
LEAST: Final = 2


def largest_fitting(
    fits: Callable[[int], bool], start: int, most: int, enough: Callable[[], bool] = lambda: False
) -> tuple[int, bool]:
    """(the largest that fits, whether a larger one was refused): doubled from `start` while it fits and is at
    most `most`, halved where it does not. 0: not even two images fit. `enough` ends the doubling.
    """
    size = start
    while not fits(size):
        if size <= LEAST:
            return 0, True
        size = max(size // 2, LEAST)
    if size < start:
        return size, True
    while 2 * size <= most and not enough():
        if not fits(2 * size):
            return size, True
        size *= 2
    return size, False


def safe_batch(small: tuple[int, int], large: tuple[int, int], memory: int) -> int:
    """From two (images, peak bytes): memory grows by a fixed amount for each image. A power of two.

    A fifth of the memory stays free: for what grows later, and because two points make no good line.
    """
    (few, low), (many, high) = small, large
    each = max((high - low) / (many - few), 1.0)
    count = int((memory * (1 - HEAD_ROOM) - (low - few * each)) / each)
    return 0 if count < LEAST else 1 << (count.bit_length() - 1)


def part_of(batch: int, most: int) -> int:
    """The largest --micro-batch up to `most`: a batch must be a multiple of it. 0: there is none."""
    return next((size for size in range(min(batch, most), LEAST - 1, -1) if batch % size == 0), 0)
