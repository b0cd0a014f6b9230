"""Hard views: what a network has to see through. Shapes: B images, s side of a view."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from torch import Tensor

from semppl.core.rng import generator, uniforms
from semppl.protocols.desk import Desk
from semppl.train.build import build_views
from semppl.views.easy import cut_out
from semppl.views.photometric import finish
from semppl.views.recipe import View
from semppl.views.warp import warp, warping

# crops of at least so much, in every second one; a smaller part often shows another thing, or none, and the
# answer for the whole image would be wrong for it
_LEAST_AREA: Final = 0.35
_CROP: Final = 0.5

Harden: TypeAlias = Callable[[int, Tensor], Tensor]
"""Step and uint8 crops → views; the same step always gives the same."""


def hard_view(desk: Desk) -> View:
    """The colours of pre-training's large views, of which every second one is solarised; crops no harder than
    its own.
    """
    view = build_views(desk.config.views)[0]
    return replace(
        view,
        min_area=max(view.min_area, _LEAST_AREA),
        max_area=1.0,
        crop=_CROP,
        solarise=view.solarise / 2,
    )


def hardening(desk: Desk, view: View, seed: int, name: str) -> Harden:
    """Colours, perhaps a warp, and a hole, all on the device; `name` is that of the random numbers."""
    (mean_3, std_3), warps = desk.statistics, warping() is not None

    def harden(step: int, crops_B3ss: Tensor) -> Tensor:
        rng = generator(seed, name, step, desk.device)
        views_B3ss = finish(crops_B3ss, view, mean_3, std_3, rng)
        if warps:
            views_B3ss = warp(views_B3ss, uniforms(4, len(views_B3ss), rng))
        return cut_out(views_B3ss, uniforms(2, len(views_B3ss), rng))

    return harden


def hard_in_words(view: View) -> str:
    """What all have, and what some."""
    warps = warping()
    warped = (
        f", {warps['share']:.0%} turned by up to {warps['turn']:g}° and sheared by up to {warps['shear']:g}"
        if warps
        else ""
    )
    return (
        f"the colours of pre-training, {view.crop:.0%} of them crops from {view.min_area:.0%} on{warped}, "
        "and a hole of half their side"
    )
