"""Where the data sets of torchvision keep images, labels and names of classes. Shapes: M images."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

_CLASSES: Final = ("classes", "categories", "all_categories")
_PAIRS: Final = ("samples", "_samples", "imgs")
_FILES: Final = ("_image_files", "_images")


def class_names(dataset: Any) -> tuple[str, ...] | None:
    """Of a set that names its classes."""
    names = next((getattr(dataset, key) for key in _CLASSES if hasattr(dataset, key)), None)
    return None if names is None else _distinct(names)


def content_of(dataset: Any) -> tuple[Tensor | Sequence[str | Path], Sequence[int | None]]:
    """Images and labels, from whichever attributes the set keeps them in."""
    if hasattr(dataset, "data"):
        labels = np.asarray(dataset.targets if hasattr(dataset, "targets") else dataset.labels)
        return _pixels(dataset.data), (labels if labels.ndim == 1 else labels[:, 0]).tolist()
    for key in _PAIRS:
        if hasattr(dataset, key):
            pairs = getattr(dataset, key)
            images = [image for image, _ in pairs]
            in_memory = bool(images) and isinstance(images[0], Tensor)
            return _pixels(torch.stack(images)) if in_memory else images, [label for _, label in pairs]
    for key in _FILES:
        if hasattr(dataset, key):
            return getattr(dataset, key), dataset._labels
    return _numbered_files(dataset)


def _numbered_files(dataset: Any) -> tuple[list[str | Path], list[int]]:
    """Files of sets that keep a name or a number within each class."""
    root = Path(dataset.root)
    if hasattr(dataset, "all_categories"):
        names, labels = [name for _, name in dataset.index], [label for label, _ in dataset.index]
        folders = [root / name for name in dataset.all_categories]
    else:
        labels = dataset.y
        if type(dataset).__name__ == "Caltech101":
            top, names = "101_ObjectCategories", [f"image_{i:04d}.jpg" for i in dataset.index]
        else:
            pairs = zip(labels, dataset.index, strict=True)
            top, names = "256_ObjectCategories", [f"{label + 1:03d}_{i:04d}.jpg" for label, i in pairs]
        folders = [root / top / name for name in dataset.categories]
    return [folders[label] / name for label, name in zip(labels, names, strict=True)], labels


def _pixels(data: Any) -> Tensor:
    """uint8 [M, 3, H, W] of images in any layout."""
    x = data if isinstance(data, Tensor) else torch.from_numpy(data)
    if x.ndim == 3:
        x = x[:, None]
    elif x.shape[3] in (1, 3):
        x = x.permute(0, 3, 1, 2)
    return x.expand(-1, 3, -1, -1).contiguous()


def _distinct(names: Sequence[str | Sequence[str]]) -> tuple[str, ...]:
    """Names as text; synonyms are joined, and a name that two classes share gets their numbers."""
    words = [name if isinstance(name, str) else ", ".join(name) for name in names]
    count = Counter(words)
    return tuple(word if count[word] == 1 else f"{word} ({i})" for i, word in enumerate(words))
