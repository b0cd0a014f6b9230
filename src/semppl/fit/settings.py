"""Flags of the journey. No torch here, so that --help is quick."""

from dataclasses import dataclass

MINUTES = 30.0


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """What the journey includes."""

    minutes: float = MINUTES
    """Time for everything together; --epochs decides instead where it is given."""
    baselines: bool = True
    """Measure the same labels without pre-training, too: honest, and about half of the time."""
    finetune: bool = True
    """Fine-tune on the labels, besides k-NN and a linear classifier on frozen features."""
