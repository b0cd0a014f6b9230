"""The view of every evaluation: the whole image, nothing drawn. Shapes: N images, H×W pixels, s side."""

from typing import Final

from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as V

from semppl.views.colour import normalise

# the paper's test images: shorter side 256, of which the middle 224 are seen
_MARGIN: Final = 256 / 224
_MARGIN_FROM: Final = 96


def whole_view(crops_N3ss: Tensor, mean_3: Tensor, std_3: Tensor) -> Tensor:
    """What `whole_crop` gave → normalised floats on the device of the statistics."""
    return normalise(crops_N3ss.to(mean_3.device).float() / 255, mean_3, std_3)


def resized_side(size: int) -> int:
    """The side to which the middle square is resized before its middle `size` pixels are seen."""
    return round(size * _MARGIN) if size >= _MARGIN_FROM else size


def whole_crop(size: int, images_3HW: Tensor) -> Tensor:
    """The middle of a uint8 image of any shape [3,H,W], or of many [N,3,H,W], as [3,s,s].

    The middle square is resized; from 96 px on its outermost eighth is then cut away, as in the paper.
    """
    shorter = min(images_3HW.shape[-2:])
    side = resized_side(size)
    square = V.center_crop(images_3HW, [shorter, shorter])
    if shorter == side == size:
        return square
    fitted = V.resize(square, [side, side], InterpolationMode.BICUBIC, antialias=True)
    return V.center_crop(fitted, [size, size])


def fitted_crop(size: int, images_3HW: Tensor) -> Tensor:
    """The middle square with nothing cut away: for transfer, as BYOL did."""
    shorter = min(images_3HW.shape[-2:])
    square = V.center_crop(images_3HW, [shorter, shorter])
    return (
        square
        if shorter == size
        else V.resize(square, [size, size], InterpolationMode.BICUBIC, antialias=True)
    )


def ready_crop(size: int, image_3HW: Tensor) -> Tensor:
    """The same for images that were cut for testing already, as in ImageNet-C: their middle as it is."""
    if min(image_3HW.shape[-2:]) == size:
        return V.center_crop(image_3HW, [size, size])
    return whole_crop(size, image_3HW)


def framed_crop(size: int, border: int, image_3HW: Tensor) -> Tensor:
    """The same for images in a frame of some pixels, as those of ObjectNet; tiny ones keep theirs."""
    height, width = image_3HW.shape[-2:]
    if min(height, width) > 2 * border:
        image_3HW = image_3HW[..., border : height - border, border : width - border]
    return whole_crop(size, image_3HW)
