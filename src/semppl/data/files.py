"""Image files: which there are, and their pixels."""

from pathlib import Path
from typing import Final

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torchvision.io import ImageReadMode, decode_image, read_file

from semppl.core.errors import UserError

SUFFIXES: Final = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".tif", ".tiff", ".bmp"})
# what torchvision decodes; the rest is Pillow's
_FAST: Final = frozenset({".jpg", ".jpeg", ".png"})


def image_files(root: Path) -> list[str]:
    """Paths of all images below a folder, sorted."""
    if not root.is_dir():
        raise UserError(f"{root}: no such folder of images")
    found = sorted(str(path) for path in root.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not found:
        raise UserError(f"{root}: no image found in this folder ({', '.join(sorted(SUFFIXES))})")
    return found


def read_image(path: str) -> Tensor:
    """uint8 [3, H, W], upright."""
    try:
        if Path(path).suffix.lower() in _FAST:
            try:
                return decode_image(read_file(path), ImageReadMode.RGB, apply_exif_orientation=True)
            except RuntimeError:  # e.g. a JPEG in CMYK, or a wrong suffix: Pillow knows more
                pass
        with Image.open(path) as image:
            upright = ImageOps.exif_transpose(image).convert("RGB")
            return torch.from_numpy(np.array(upright)).permute(2, 0, 1)
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise UserError(f"{path}: not a readable image") from error
