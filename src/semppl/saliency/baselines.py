"""What an estimator of saliency must beat: a guess without the image, all of it, and OpenCV's.

Shapes: H×W pixels.
"""

from collections.abc import Callable, Mapping
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Map = NDArray[np.float32]

_SPREAD: Final = 1 / 3
"""Standard deviation of the centre prior, as a share of each side."""


def centre(image_HW3: Pixels) -> Map:
    """Photographers put objects in the middle: a Gaussian there, 1 at the centre."""
    down_H, across_W = (np.exp(-(_offsets(side) ** 2) / (2 * _SPREAD**2)) for side in image_HW3.shape[:2])
    return np.outer(down_H, across_W).astype(np.float32)


def everything(image_HW3: Pixels) -> Map:
    """All foreground: its F is what the objects' size alone gives."""
    return np.ones(image_HW3.shape[:2], np.float32)


def spectral_residual(image_HW3: Pixels) -> Map:
    """What is unexpected in the image's spectrum (Hou and Zhang, 2007), as OpenCV has it.

    A single colour has nothing unexpected: there OpenCV would give its rounding errors.
    """
    if not np.ptp(image_HW3, axis=(0, 1)).any():
        return np.zeros(image_HW3.shape[:2], np.float32)
    saliency = cv2.saliency.StaticSaliencySpectralResidual.create()
    done, map_HW = saliency.computeSaliency(np.ascontiguousarray(image_HW3[:, :, ::-1]))
    if not done:
        raise ValueError(f"OpenCV has no spectral residual of an image of {image_HW3.shape}")
    return np.asarray(map_HW, np.float32).clip(0, 1)


def _offsets(side: int) -> NDArray[np.float64]:
    """Of the pixels' centres from the middle, in sides."""
    return (np.arange(side) + 0.5) / side - 0.5


BASELINES: Final[Mapping[str, Callable[[Pixels], Map]]] = {
    "centre prior": centre,
    "all foreground": everything,
    "spectral residual": spectral_residual,
}
