"""Fine-tuning with consistency as a protocol: which images, which views, and what was done in words.

An image is seen as it is evaluated (whole, and sharp where it has the size of a view). An easy view is that,
flipped and shifted; a hard view is cut from it, has the colours of pre-training and a hole.

Shapes: L labelled images, N images without a label, B images of a batch, s side of a view.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, final

import torch
from torch import Tensor, nn

from semppl.core.batch import Batch
from semppl.core.errors import UserError
from semppl.core.rng import generator, stream, uniforms
from semppl.core.share import Rows
from semppl.data.dataset import Dataset
from semppl.data.images import ImageFiles, Images, Prepare, gather
from semppl.data.resident import ResidentFeed
from semppl.data.streaming import StreamingFeed
from semppl.evaluate.consistency import (
    WEIGHT_DECAY,
    Answers,
    Pair,
    Plan,
    Tally,
    class_prior,
    create_sgd,
    create_student,
    learn_,
    make_plan,
)
from semppl.evaluate.linear import LinearFit
from semppl.protocols.desk import Desk
from semppl.protocols.frozen import linear_fit, linear_words
from semppl.protocols.results import Outcome, over_seeds
from semppl.protocols.scored import numbers_of
from semppl.protocols.self_training import without_label
from semppl.protocols.subject import Subject
from semppl.train.build import build_views
from semppl.train.device import memory_for_pixels
from semppl.train.progress import StageProgress
from semppl.views.colour import normalise
from semppl.views.geometry import cut_views
from semppl.views.photometric import finish
from semppl.views.recipe import View

Feed: TypeAlias = Callable[[int], Batch]

# of the side: FixMatch's, 4 px of 32
_SHIFT: Final = 1 / 8
# of hard views: crops of at least so much, in every second one; a smaller part often shows another thing, or
# none, and the answer for the whole image would be wrong for it
_LEAST_AREA: Final = 0.35
_CROP: Final = 0.5
# of the side
_HOLE: Final = 0.5


@final
@dataclass(frozen=True)
class Cut:
    """Images → uint8 views: easy ones, and hard ones before their colours if there is a `hard`; picklable."""

    prepare: Prepare
    flip: float
    hard: View | None = None

    def __call__(
        self, images_BCHW: Tensor, masks_BHW: Tensor | None, rng: torch.Generator, rows: Rows
    ) -> tuple[Tensor, ...]:
        """Of a batch; masks stay unused, as in all that follows pre-training."""
        square_B3ss = self.prepare(images_BCHW).round().to(torch.uint8)
        easy_B3ss = shift(square_B3ss, uniforms(3, rows, rng), self.flip)
        if self.hard is None:
            return (easy_B3ss,)
        other_B3ss = shift(square_B3ss, uniforms(3, rows, rng), 0.0)
        return easy_B3ss, *cut_views(other_B3ss, [self.hard], 1, rng, rows=rows)

    def one(self, image_CHW: Tensor, rng: torch.Generator) -> list[Tensor]:
        """Of a single image of any size."""
        return [view_B3ss[0] for view_B3ss in self(image_CHW[None], None, rng, Rows(0, 1, 1))]


def shift(square_B3ss: Tensor, u_3B: Tensor, flip: float) -> Tensor:
    """Each image moved by up to an eighth of its side, mirrored at its edges, and perhaps flipped: no pixel
    is made of two, so the view is as sharp as the image.
    """
    side = square_B3ss.shape[-1]
    reach, last = round(side * _SHIFT), side - 1
    u_3B = u_3B.to(square_B3ss.device)
    offset_2B1 = ((u_3B[:2] * (2 * reach + 1)).floor().long() - reach)[:, :, None]
    place_2Bs = last - (last - (torch.arange(side, device=u_3B.device) + offset_2B1).abs()).abs()
    rows_Bs, columns_Bs = place_2Bs
    columns_Bs = columns_Bs.flip(1).where((u_3B[2] < flip)[:, None], columns_Bs)
    moved_B3ss = square_B3ss.gather(2, rows_Bs[:, None, :, None].expand_as(square_B3ss))
    return moved_B3ss.gather(3, columns_Bs[:, None, None, :].expand_as(square_B3ss))


def cut_out(views_B3ss: Tensor, u_2B: Tensor) -> Tensor:
    """A square hole, half as wide as the view, around a pixel anywhere: 0 is the mean colour."""
    side = views_B3ss.shape[-1]
    pixel = torch.arange(side, device=views_B3ss.device)
    centre_2B1 = (u_2B.to(views_B3ss.device) * side).floor()[:, :, None]
    # a hole of an even width reaches one pixel further up and to the left
    inside_2Bs = (2 * (pixel - centre_2B1) + 1).abs() < _HOLE * side + 1
    return views_B3ss.masked_fill(inside_2Bs[0][:, None, :, None] & inside_2Bs[1][:, None, None, :], 0.0)


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
