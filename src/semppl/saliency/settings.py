"""The flags of `semppl masks`. Neither torch nor OpenCV here, so that --help is quick."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final, Literal

from semppl.core.errors import UserError

_LEAST: Final = {"train_images": 1, "sheet": 0, "workers": 0}


@dataclass(frozen=True, kw_only=True)
class MasksFlags:
    """How masks are made, and where they go."""

    out: Path | None = None
    """Folder of the masks; by default DATA.masks beside the data, where training looks for them."""
    root: str | None = None
    """Where torchvision keeps its data sets."""
    refine: Literal["auto", "on", "off"] = "auto"
    """on: a network learns from the estimates for some of the images, and masks all of them; off: the fused
    estimates, cut along edges, are the masks. auto: on where there is a GPU and at least 100 images; masks
    that are there already go on as they began."""
    train_images: int = 2500
    """The network learns from at most so many images, spread evenly over the data."""
    sheet: int = 12
    """Images on the contact sheet sheet.jpg; 0 makes none."""
    truth: Path | None = None
    """A folder of true masks with the names of the images: all maps are scored against them afterwards."""
    device: str = "auto"
    """Of the network: auto, cpu, cuda or cuda:N."""
    workers: int | None = None
    """Processes that read and estimate; by default one for each core."""
    seed: int = 0
    """Of the network."""
    overwrite: bool = False
    """Make all masks anew, even if they were made with other settings."""
    debug: bool = False
    """Show the traceback of an error."""


def require_sensible(flags: MasksFlags) -> None:
    """Refuse numbers that mean nothing and a folder of truth that is not there."""
    for name, least in _LEAST.items():
        value = getattr(flags, name)
        if value is not None and value < least:
            raise UserError(f"--{name.replace('_', '-')} is {value}: it must be at least {least}")
    if flags.truth is not None and not flags.truth.is_dir():
        raise UserError(f"--truth {flags.truth}: no such folder of masks")


def require_opencv() -> None:
    """Refuse to go on without the parts of OpenCV that only its contrib packages have."""
    try:
        cv2 = import_module("cv2")
        _ = cv2.ximgproc, cv2.saliency
    except (ImportError, AttributeError) as error:
        raise UserError(
            f"masks need OpenCV with its contrib modules ({error}): pip install 'semppl[masks]'"
        ) from error
