"""Names and severities of ImageNet-C, which its files and our own corruptions share."""

from typing import Final

CORRUPTIONS: Final = (
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
)
"""In the order of the paper's table. The four `extra` corruptions are not scored."""
SEVERITIES: Final = (1, 2, 3, 4, 5)
