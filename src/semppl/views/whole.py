"""The view of every evaluation: the whole image, nothing drawn. Shapes: N images, H×W pixels, s side."""

from typing import Final

from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as V

from semppl.views.colour import normalise
from semppl.views.geometry import resize_whole

# the paper's test images: shorter side 256, of which the middle 224 are seen
_MARGIN: Final = 256 / 224
_MARGIN_FROM: Final = 96


def whole_view(images_N3HW: Tensor, size: int, mean_3: Tensor, std_3: Tensor) -> Tensor:
    """uint8 images → normalised floats [N,3,s,s] on the device of the statistics."""
    return normalise(resize_whole(images_N3HW.to(mean_3.device), size).float() / 255, mean_3, std_3)


def whole_crop(size: int, image_3HW: Tensor) -> Tensor:
    """The middle of one uint8 image of any shape [3,H,W] as [3,s,s].

    The middle square is resized; from 96 px on its outermost eighth is then cut away, as in the paper.
    """
    shorter = min(image_3HW.shape[1:])
    side = round(size * _MARGIN) if size >= _MARGIN_FROM else size
    square = V.center_crop(image_3HW, [shorter, shorter])
    fitted = V.resize(square, [side, side], InterpolationMode.BICUBIC, antialias=True)
    return V.center_crop(fitted, [size, size])
