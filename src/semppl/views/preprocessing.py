"""How images are made ready for a trained network: what is seen of them, at which size, normalised how."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final, Literal, Self

from torch import Tensor

from semppl.views.tensorflow import tensorflow_crop
from semppl.views.whole import whole_crop

Crop = Literal["middle", "deepmind"]

CROPS: Final[Mapping[str, Callable[[int, Tensor], Tensor]]] = {
    "middle": whole_crop,
    "deepmind": tensorflow_crop,
}


@dataclass(frozen=True)
class Preprocessing:
    """From an image of any size to what a network takes."""

    size: int
    mean: tuple[float, ...]
    """Of the channels, where white is 1."""
    std: tuple[float, ...]
    crop: Crop = "middle"
    """The middle square, antialiased; or exactly what DeepMind's evaluation did."""

    @classmethod
    def of(cls, size: int, mean_3: Tensor, std_3: Tensor) -> Self:
        """By statistics that are tensors."""
        return cls(size, tuple(mean_3.tolist()), tuple(std_3.tolist()))

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """As it lies in a checkpoint."""
        return cls(stored["size"], tuple(stored["mean"]), tuple(stored["std"]), stored["crop"])

    def as_json(self) -> dict[str, Any]:
        """For a checkpoint."""
        return asdict(self) | {"mean": list(self.mean), "std": list(self.std)}

    @property
    def prepare(self) -> Callable[[Tensor], Tensor]:
        """One uint8 image [3,H,W] of any size, or many of one size → [3,s,s], from 0 to 255."""
        return partial(CROPS[self.crop], self.size)
