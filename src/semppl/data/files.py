"""Image files: which there are, and their pixels."""

from pathlib import Path
from typing import Final

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from semppl.core.errors import UserError

SUFFIXES: Final = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".tif", ".tiff", ".bmp"})


def image_files(root: Path) -> list[str]:
    """Paths of all images below a folder, sorted."""
    if not root.is_dir():
        raise UserError(f"{root}: no such folder of images")
    found = sorted(str(path) for path in root.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not found:
        raise UserError(f"{root}: no image found in this folder ({', '.join(sorted(SUFFIXES))})")
    return found


def read_image(path: str) -> Tensor:
    """uint8 [3, H, W], upright; in memory pixel by pixel, which is what a resize reads fastest.

    By Pillow: torchvision's decoders, which read the same pixels of a JPEG, are deprecated.
    """
    try:
        with Image.open(path) as image:
            pixels = np.array(ImageOps.exif_transpose(image).convert("RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UserError(f"{path}: not a readable image") from error
    return torch.from_numpy(pixels).permute(2, 0, 1)
