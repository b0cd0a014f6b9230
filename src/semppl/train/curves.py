"""A line of metrics as TensorBoard shows it."""

from typing import Any

from torch.utils.tensorboard import SummaryWriter


def write_curves(writer: SummaryWriter, row: dict[str, Any]) -> None:
    """Numbers become curves; the counts of images by votes become a histogram."""
    for key, value in row.items():
        if key == "pseudo/votes":
            _write_histogram(writer, key, value, row["step"])
        elif key not in ("step", "epoch") and not isinstance(value, list):
            writer.add_scalar(key, value, row["step"])


def _write_histogram(writer: SummaryWriter, key: str, counts: list[int], step: int) -> None:
    writer.add_histogram_raw(
        key,
        min=0,
        max=len(counts) - 1,
        num=sum(counts),
        sum=sum(votes * count for votes, count in enumerate(counts)),
        sum_squares=sum(votes**2 * count for votes, count in enumerate(counts)),
        bucket_limits=[votes + 0.5 for votes in range(len(counts))],
        bucket_counts=counts,
        global_step=step,
    )
