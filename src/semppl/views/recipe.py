"""Which views an image gets: the paper's even/odd table, and the same idea for small images."""

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """One view: probabilities and ranges from which each image draws its own parameters."""

    size: int
    min_area: float
    max_area: float = 1.0
    crop: float = 1.0
    """Probability of cropping; otherwise the whole image is resized."""
    flip: float = 0.5
    jitter: float = 0.8
    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.2
    hue: float = 0.1
    grey: float = 0.2
    blur: float = 0.0
    blur_taps: int | None = None
    """Taps of the Gaussian; None: a tenth of the size, made odd, as in BYOL's code."""
    solarise: float = 0.0
    solarise_by: Literal["invert", "binarise"] = "invert"

    def __post_init__(self) -> None:
        if self.size < 1 or not 0 < self.min_area <= self.max_area <= 1:
            raise ValueError(
                f"a view of {self.size} px with areas from {self.min_area} to {self.max_area} cannot be cut"
            )
        if self.blur_taps is not None and (self.blur_taps < 1 or self.blur_taps % 2 == 0):
            raise ValueError(f"a blur has an odd number of taps, not {self.blur_taps}")
        for name in ("crop", "flip", "jitter", "grey", "blur", "solarise"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a probability, so it cannot be {getattr(self, name)}")

    @property
    def taps(self) -> int:
        """Taps of the Gaussian at this size."""
        return 2 * int(self.size / 10 / 2) + 1 if self.blur_taps is None else self.blur_taps


def paper_recipe(large: int = 4, small: int = 2, large_size: int = 224, small_size: int = 96) -> list[View]:
    """Odd views (1st, 3rd, …): blur 0.1, solarise 0.2, area from 14 %; even ones: blur always, area from 8 %.

    Small views of both kinds show 5 to 14 % of the image. Large views come first.
    """
    odd = View(size=large_size, min_area=0.14, blur=0.1, solarise=0.2)
    even = View(size=large_size, min_area=0.08, blur=1.0)
    large_views = [even if i % 2 else odd for i in range(large)]
    small_views = [
        replace(even if i % 2 else odd, size=small_size, min_area=0.05, max_area=0.14) for i in range(small)
    ]
    return large_views + small_views


def small_image_recipe(
    large: int = 4, small: int = 2, large_size: int = 32, small_size: int = 16
) -> list[View]:
    """For images of a few dozen pixels: no blur, and crops that still show something.

    Large views show 20 to 100 % of the image, small ones 10 to 40 %; odd views are solarised with
    probability 0.2 as in the paper's table.
    """
    odd = View(size=large_size, min_area=0.2, solarise=0.2)
    even = replace(odd, solarise=0.0)
    large_views = [even if i % 2 else odd for i in range(large)]
    small_views = [
        replace(even if i % 2 else odd, size=small_size, min_area=0.1, max_area=0.4) for i in range(small)
    ]
    return large_views + small_views
