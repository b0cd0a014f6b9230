"""Thumbnails in sheets: one file for a thousand images, of which a page shows a part at a time.

Shapes: N images, s side of a tile, R×C tiles of a sheet.
"""

from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from PIL import Image, features
from torch import Tensor
from torch.nn import functional as F

from semppl.core.rundir import write_atomically
from semppl.data.images import Images, gather
from semppl.views.whole import whole_crop

SIDE: Final = 64
COLUMNS: Final = 32
PER_SHEET: Final = 32 * COLUMNS
_QUALITY: Final = 80


def write_tiles(folder: Path, name: str, images: Images, *, workers: int | None = None) -> dict[str, Any]:
    """Sheets NAME-0.webp, NAME-1.webp, …, in which tile i shows image i; gives what a reader must know.

    Sheets of an earlier, longer set are removed. A file that cannot be read is grey.
    """
    if not features.check("webp"):
        raise OSError("this Pillow writes no WebP: install one that does")
    sheets = []
    for number, first in enumerate(range(0, len(images), PER_SHEET)):
        some_B = torch.arange(first, min(first + PER_SHEET, len(images)))
        sheet = arranged(gather(images[some_B], partial(whole_crop, SIDE), workers=workers).cpu())
        sheets.append(f"{name}-{number}.webp")
        write_atomically(folder / sheets[-1], partial(sheet.save, format="WEBP", quality=_QUALITY))
    for old in folder.glob(f"{name}-*.webp"):
        if old.name not in sheets:
            old.unlink()
    return {"side": SIDE, "columns": COLUMNS, "per_sheet": PER_SHEET, "sheets": sheets}


def arranged(tiles_N3ss: Tensor) -> Image.Image:
    """Row by row; the last row is filled up with black."""
    rows, side = -(-len(tiles_N3ss) // COLUMNS), tiles_N3ss.shape[-1]
    tiles_N3ss = F.pad(tiles_N3ss, (0, 0, 0, 0, 0, 0, 0, rows * COLUMNS - len(tiles_N3ss)))
    sheet_RsCs3 = tiles_N3ss.view(rows, COLUMNS, 3, side, side).permute(0, 3, 1, 4, 2)
    return Image.fromarray(sheet_RsCs3.reshape(rows * side, COLUMNS * side, 3).contiguous().numpy())
