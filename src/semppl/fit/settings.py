"""Flags of the journey. No torch here, so that --help is quick."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semppl.core.errors import UserError
from semppl.core.stored import load, stored_mapping, stored_text

MINUTES: Final = 30.0
SETTINGS: Final = "fit.yaml"
"""Where a run directory keeps them."""


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """What the journey includes."""

    minutes: float = MINUTES
    """Time for everything together; --epochs decides instead where it is given."""
    baselines: bool = True
    """Measure the same labels without pre-training, too: honest, and about half of the time."""
    finetune: bool = True
    """Fine-tune on the labels, besides k-NN and a linear classifier on frozen features."""
    consistency: bool = True
    """Fine-tune on images with and without labels together, too, where time allows."""


def stored_settings(run: Path) -> FitSettings:
    """Of a run that goes on."""
    file = run / SETTINGS
    if not file.is_file():
        raise UserError(f"{run} was not started by `semppl fit`: go on with `semppl pretrain --resume`")
    return load(FitSettings, stored_mapping(stored_text(file), str(file)), str(file))
