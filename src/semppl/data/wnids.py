"""ImageNet's classes by their folders' names, and which of them a classifier knows. Shapes: Y classes."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.resources import files

import torch
from torch import Tensor

from semppl.core.errors import UserError


@cache
def wnid_index() -> Mapping[str, int]:
    """The 1,000 names of ImageNet's class folders, each with the number that everybody gives to its class."""
    names = import_module("timm.data").ImageNetInfo().label_names()
    return {wnid: index for index, wnid in enumerate(names)}


@cache
def imagenet_r_indices() -> tuple[int, ...]:
    """The 200 of ImageNet's classes that ImageNet-R has renditions of, ascending."""
    # timm has the list, but no function that returns it
    wnids = files("timm.data").joinpath("_info", "imagenet_r_synsets.txt").read_text(encoding="utf-8")
    return tuple(sorted(wnid_index()[wnid] for wnid in wnids.split()))


@cache
def _word_index() -> Mapping[str, int]:
    """From "tench, Tinca tinca" to 0; two classes are called crane, so their numbers are added, as we do."""
    info = import_module("timm.data").ImageNetInfo()
    words = [str(info.index_to_description(index)) for index in range(1000)]
    return {
        word if words.count(word) == 1 else f"{word} ({index})": index for index, word in enumerate(words)
    }


def imagenet_indices(classes: Sequence[str]) -> Tensor:
    """int64 [Y]: the ImageNet number of each class of a classifier, which may know only some of the 1,000.

    Classes are folders' names, or words as torchvision's ImageNet has them.
    """
    index = {**_word_index(), **wnid_index()}
    if strange := [name for name in classes if name not in index]:
        named = ", ".join(repr(name) for name in strange[:3])
        more = ", …" if len(strange) > 3 else ""
        raise UserError(
            f"robustness sets need a classifier of ImageNet's classes; the run's classes are {named}{more}: "
            "use a run whose class folders have ImageNet's names, such as n01440764"
        )
    return torch.tensor([index[name] for name in classes], dtype=torch.int64)
