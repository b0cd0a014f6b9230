"""An encoder, perhaps with a classifier, and how images are made ready for it. Shapes: s side of a view."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image
from torch import Tensor, nn

from semppl.config import NetConfig, required
from semppl.data.files import pixels_of
from semppl.data.image import read_image
from semppl.nets.encoder import create_encoder
from semppl.nets.initialise import undrawn
from semppl.views.preprocessing import Preprocessing
from semppl.views.whole import whole_view


@dataclass(frozen=True)
class Architecture:
    """What `create_encoder` is asked for."""

    encoder: str
    width: float
    stem: str
    sk: bool = False
    padding: str = "symmetric"

    @classmethod
    def of(cls, net: NetConfig) -> Self:
        """Of a resolved configuration."""
        # the first configurations knew one padding only
        padding = net.padding or "symmetric"
        return cls(required(net.encoder), required(net.width), required(net.stem), net.sk, padding)

    def create(self, weights: Mapping[str, Tensor]) -> nn.Module:
        """The encoder with given weights, in evaluation mode."""
        create = partial(
            create_encoder,
            self.encoder,
            width=self.width,
            sk=self.sk,
            stem=self.stem,  # type: ignore[arg-type]  # checked there
            padding=self.padding,  # type: ignore[arg-type]  # checked there
        )
        encoder = undrawn(create)
        encoder.load_state_dict(weights)
        return encoder.eval()


@final
class Network(nn.Module):
    """Images → logits of the classes, or features where there is no classifier."""

    mean_3: Tensor
    std_3: Tensor

    def __init__(
        self,
        architecture: Architecture,
        encoder: nn.Module,
        preprocessing: Preprocessing,
        *,
        head: nn.Module | None = None,
        classes: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self.architecture, self.preprocessing, self.classes = architecture, preprocessing, classes
        self.encoder, self.head = encoder, head
        self.register_buffer("mean_3", torch.tensor(preprocessing.mean), persistent=False)
        self.register_buffer("std_3", torch.tensor(preprocessing.std), persistent=False)

    def preprocess(self, image: str | Path | Image | NDArray[np.uint8] | Tensor) -> Tensor:
        """An image of any size → [3,s,s], normalised, on the device of the network.

        A file, an image of Pillow, an array [H,W,3] or a tensor [3,H,W] of uint8.
        """
        pixels_3HW = _pixels(image)
        crop_13ss = self.preprocessing.prepare(pixels_3HW)[None]
        return whole_view(crop_13ss, self.mean_3, self.std_3)[0]

    def features(self, images_B3ss: Tensor) -> Tensor:
        """What the encoder gives, [B, F]."""
        return self.encoder(images_B3ss)

    def logits(self, features_BF: Tensor) -> Tensor:
        """What its classifier makes of them, [B, Y]."""
        if self.head is None:
            raise ValueError("this network has no classifier")
        return self.head(features_BF)

    def forward(self, images_B3ss: Tensor) -> Tensor:
        """Of preprocessed images: logits [B, Y], or features [B, F] of an encoder alone."""
        features_BF = self.features(images_B3ss)
        return features_BF if self.head is None else self.logits(features_BF)


def _pixels(image: str | Path | Image | NDArray[np.uint8] | Tensor) -> Tensor:
    if isinstance(image, str | Path):
        return read_image(str(image))
    if isinstance(image, Image):
        image = pixels_of(image)
    is_tensor = isinstance(image, Tensor)
    shape = tuple(getattr(image, "shape", ()))
    if len(shape) != 3 or shape[0 if is_tensor else 2] != 3 or image.dtype not in (torch.uint8, np.uint8):
        raise ValueError(
            "an image is a file, one of Pillow's, or uint8 as a tensor [3,H,W] or an array [H,W,3], not "
            f"{type(image).__name__} {shape} of {getattr(image, 'dtype', 'nothing')}"
        )
    return image if isinstance(image, Tensor) else torch.from_numpy(image.copy()).permute(2, 0, 1)
