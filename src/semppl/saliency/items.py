"""Which images get masks: all below a folder, or those that training would take from an array or a named set.

Shapes: M images, H×W pixels.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from torch import Tensor

from semppl.core.errors import UserError
from semppl.data.arrays import load_npz
from semppl.data.digits import load_digits
from semppl.data.listing import list_images
from semppl.data.masks import array_mask_name, file_mask_name
from semppl.data.paths import Paths
from semppl.data.source import as_files
from semppl.data.torchvision import is_torchvision_name, load_torchvision
from semppl.saliency.reading import Item


@final
@dataclass(frozen=True, eq=False)
class Items:
    """Images by number; each is made when it is asked for, so that a million take little memory."""

    root: Path
    """Of the files."""
    images: Paths | Tensor
    """Paths relative to it, or uint8 [M,3,H,W]."""
    notes: tuple[str, ...] = ()
    """Lines that the user should read."""
    own_masks: bool = False
    """The file of the images has masks already, and training prefers them."""

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Item:
        if isinstance(self.images, Tensor):
            mask = array_mask_name(index)
            pixels_HW3 = self.images[index].permute(1, 2, 0).contiguous().numpy()
            return Item(Path(mask).stem, mask, pixels_HW3)
        path = self.images[index]
        return Item(path, file_mask_name(path), str(self.root / path))

    def masks(self) -> Iterator[str]:
        """The names of all masks."""
        if isinstance(self.images, Tensor):
            return map(array_mask_name, range(len(self)))
        return map(file_mask_name, self.images)

    def parts(self, numbers: Sequence[int], size: int) -> Iterator[list[Item]]:
        """Some of them, so many at a time."""
        for first in range(0, len(numbers), size):
            yield [self[number] for number in numbers[first : first + size]]


def items_of(source: str, root: str | None) -> Items:
    """What DATA holds; labels are not looked at."""
    path, named = Path(source), is_torchvision_name(source)
    if source == "digits":
        return _arrays(load_digits().images)
    if source.endswith(".npz"):
        dataset = load_npz(path)
        return _arrays(dataset.images, own_masks=dataset.masks_MHW is not None)
    if path.is_dir():
        found = list_images(path)
        closed = tuple(f"{folder}/ cannot be opened: left out" for folder in found.unreadable_folders)
        return Items(path.absolute(), found.paths, closed)
    if named is None:
        raise UserError(
            f"{source}: no such data: give a folder of images, an .npz file, the name of a torchvision set "
            "or digits"
        )
    images = load_torchvision(named, None if root is None else Path(root)).images
    if not isinstance(images, list):
        return _arrays(images)
    files = as_files(images)
    return Items(files.root, files.paths)


def _arrays(images: object, *, own_masks: bool = False) -> Items:
    if not isinstance(images, Tensor):
        raise TypeError("an array of images was expected")
    return Items(Path(), images, own_masks=own_masks)
