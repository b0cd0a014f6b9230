"""Flags of the verb `export`. No torch here, so that --help is quick."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from semppl.core.errors import UserError

FORMATS: Final = ("safetensors", "torchvision", "timm", "onnx")
PUSHED: Final = ("safetensors", "timm")


@dataclass(frozen=True, kw_only=True)
class ExportFlags:
    """What to write, and where."""

    format: tuple[str, ...] = ("safetensors",)
    """safetensors: for semppl.load and semppl predict (which asks networks that know no labelled images for
    --labels), every network; torchvision: a state dict for its
    ResNets; timm: a folder for timm.create_model; onnx: for onnxruntime and others, every network."""
    part: Literal["auto", "encoder", "classifier"] = "auto"
    """Features, or logits of the classes; auto: those where there is a classifier."""
    out: Path | None = None
    """Folder; by default RUN/export/FORMAT. Several formats get a folder each within it."""
    push: str | None = None
    """USER/NAME on the Hugging Face Hub, to which the folder is sent as well: timm or safetensors."""
    private: bool = True
    """Whether only you can see it there, if it is new."""
    overwrite: bool = False
    """Replace an export that is already there."""
    debug: bool = False
    """Show the traceback of an error."""


def wanted_formats(flags: ExportFlags) -> tuple[str, ...]:
    """Each once, in the order of the table above; commas separate, too."""
    words = [word for given in flags.format for word in given.replace(",", " ").split()]
    if strange := [word for word in words if word not in FORMATS]:
        raise UserError(f"unknown format {strange[0]!r}: there are {', '.join(FORMATS)}")
    if not words:
        raise UserError(f"no format: choose from {', '.join(FORMATS)}")
    return tuple(name for name in FORMATS if name in words)
