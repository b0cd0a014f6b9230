"""The view of every evaluation: the whole image, nothing drawn. Shapes: N images, H×W pixels, s side."""

from torch import Tensor

from semppl.views.colour import normalise
from semppl.views.geometry import resize_whole


def whole_view(images_N3HW: Tensor, size: int, mean_3: Tensor, std_3: Tensor) -> Tensor:
    """uint8 images → normalised floats [N,3,s,s] on the device of the statistics."""
    return normalise(resize_whole(images_N3HW.to(mean_3.device), size).float() / 255, mean_3, std_3)
