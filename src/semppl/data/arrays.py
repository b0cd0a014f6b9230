"""Images as arrays in an npz file.

Keys: `x` uint8 [M,H,W] or [M,H,W,1 or 3]; `y` integers [M], −1 where there is no label. Optional: `classes`
names; `x_test`, `y_test`; `masks` bool [M,H,W], or uint8 of 0 and 1 or of 0 and 255, True in the foreground;
`y_hidden` integers [M], truth for diagnostics that training never sees (−1 where unknown). Keras' names
`x_train` and `y_train`, and its columns of labels [M,1], are read, too.
"""

import zipfile
import zlib
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semppl.core.errors import UserError
from semppl.core.hidden import HiddenLabels
from semppl.core.labels import UNLABELLED
from semppl.data.dataset import Dataset
from semppl.data.masks import ABSENT

_KERAS: Final = {"x_train": "x", "y_train": "y"}


def load_npz(path: Path) -> Dataset:
    """Read and check a file; everything wrong with it is said in one line that names the file."""
    arrays = _read(path)
    images = _images(arrays["x"], f"{path}: x")
    num_images = len(images)
    labels = _labels(arrays.get("y", np.full(num_images, UNLABELLED)), num_images, f"{path}: y")
    hidden = None
    if "y_hidden" in arrays:
        hidden = _labels(arrays["y_hidden"], num_images, f"{path}: y_hidden")
    test_images, test_labels = _test(arrays, images, path)
    masks, problem = _masks(arrays.get("masks"), images)
    return Dataset(
        name=path.name,
        images=images,
        labels_M=labels,
        names=tuple(f"x[{i}]" for i in range(num_images)),
        classes=_classes(arrays, [labels, hidden, test_labels], path),
        hidden=None if hidden is None else HiddenLabels(hidden),
        masks_MHW=masks,
        test_images=test_images,
        test_labels_T=test_labels,
        notes=(f"{path}: {problem}",) if problem else (),
    )


def _read(path: Path) -> dict[str, NDArray[np.generic]]:
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            arrays = {key: content[key] for key in content.files}
    except (
        OSError,
        ValueError,
        TypeError,
        AttributeError,
        EOFError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise UserError(f"{path}: not a readable npz file ({error})") from error
    if odd := [key for key, value in arrays.items() if not isinstance(value, np.ndarray)]:
        raise UserError(f"{path}: {odd[0]!r} is not an array")
    if twice := [key for key, ours in _KERAS.items() if {key, ours} <= arrays.keys()]:
        raise UserError(f"{path}: has both {_KERAS[twice[0]]!r} and {twice[0]!r}: keep one of the two")
    found = ", ".join(sorted(arrays)) or "nothing"
    arrays = {_KERAS.get(key, key): array for key, array in arrays.items()}
    if "x" not in arrays:
        raise UserError(
            f"{path}: no array 'x' (found {found}): store the images as x, uint8 [M,H,W] or [M,H,W,3]"
        )
    return arrays


def _test(
    arrays: dict[str, NDArray[np.generic]], images_M3HW: Tensor, path: Path
) -> tuple[Tensor | None, Tensor | None]:
    if ("x_test" in arrays) != ("y_test" in arrays):
        raise UserError(f"{path}: x_test and y_test belong together, and one of them is missing")
    if "x_test" not in arrays:
        return None, None
    images = _images(arrays["x_test"], f"{path}: x_test")
    if images.shape[1:] != images_M3HW.shape[1:]:
        raise UserError(f"{path}: x_test has images of another size than x")
    labels = _labels(arrays["y_test"], len(images), f"{path}: y_test")
    if (labels == UNLABELLED).any():
        raise UserError(f"{path}: y_test has images without a label (−1): leave them out")
    return images, labels


def _images(x: NDArray[np.generic], what: str) -> Tensor:
    if x.dtype != np.uint8:
        raise UserError(f"{what} is {x.dtype}: images must be uint8 from 0 to 255")
    if x.ndim == 3:
        x = x[..., None]
    if x.ndim != 4 or x.shape[3] not in (1, 3) or 0 in x.shape:
        raise UserError(f"{what} has shape {x.shape}: expected [M,H,W], [M,H,W,1] or [M,H,W,3]")
    return torch.from_numpy(x.copy()).permute(0, 3, 1, 2).expand(-1, 3, -1, -1).contiguous()


def _labels(y: NDArray[np.generic], num_images: int, what: str) -> Tensor:
    if y.shape == (num_images, 1):
        y = y[:, 0]
    if y.shape != (num_images,):
        raise UserError(f"{what} has shape {y.shape}: expected one label for each of {num_images} images")
    if not np.issubdtype(y.dtype, np.integer):
        raise UserError(f"{what} is {y.dtype}: labels must be integers, −1 where there is none")
    lowest, highest = (int(y.min()), int(y.max())) if len(y) else (0, 0)
    if lowest < UNLABELLED or highest > 2**31:
        odd = lowest if lowest < UNLABELLED else highest
        raise UserError(f"{what} has a label out of range: {odd} (classes count from 0, −1 means no label)")
    return torch.from_numpy(y.astype(np.int64))


def _classes(
    arrays: dict[str, NDArray[np.generic]], labels: list[Tensor | None], path: Path
) -> tuple[str, ...]:
    """Names given or made from numbers; every class that the file knows of must have a label."""
    highest = max((int(y.max()) for y in labels if y is not None and len(y)), default=UNLABELLED)
    if "classes" not in arrays:
        if highest >= sum(len(y) for y in labels if y is not None):
            raise UserError(f"{path}: label {highest} is out of range: there are fewer images than classes")
        return tuple(str(i) for i in range(highest + 1))
    if arrays["classes"].ndim != 1:
        raise UserError(f"{path}: 'classes' has shape {arrays['classes'].shape}: expected a list of names")
    names = tuple(str(name) for name in arrays["classes"].tolist())
    if highest >= len(names):
        raise UserError(
            f"{path}: label {highest} is out of range: 'classes' names {len(names)}, 0 to {len(names) - 1}"
        )
    if len(set(names)) < len(names):
        raise UserError(f"{path}: 'classes' has the same name twice")
    return names


def _masks(masks: NDArray[np.generic] | None, images_M3HW: Tensor) -> tuple[Tensor | None, str]:
    """Masks, or why those in the file are of no use."""
    if masks is None:
        return None, ""
    expected = (len(images_M3HW), *images_M3HW.shape[2:])
    if masks.shape != expected or not _says_yes_or_no(masks):
        return None, f"masks is {masks.dtype} {masks.shape} and not bool {expected}{ABSENT}"
    return torch.from_numpy(masks != 0), ""


def _says_yes_or_no(masks: NDArray[np.generic]) -> bool:
    """Bool, or what is often taken for it."""
    if masks.dtype == np.uint8:
        return bool(np.isin(masks, (0, 1)).all() or np.isin(masks, (0, 255)).all())
    return masks.dtype == np.bool_
