"""A picture of semantic positives: images without a label, who voted for them, what was drawn for them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from semppl.config import Config
from semppl.core.drawing import FRAME, NEUTRAL, RIGHT, WRONG, paste_framed, shortened
from semppl.core.labels import UNLABELLED
from semppl.data.dataset import Dataset, evenly
from semppl.data.images import gather
from semppl.train.build import Training
from semppl.train.gallery import NO_SLOT, images_in, judged, queue_of, see
from semppl.train.provenance import NO_IMAGE
from semppl.views.whole import whole_crop

_ROWS: Final = 12
_VOTERS: Final = 6
_POSITIVES: Final = 5
_SIDE: Final = 64
_LINE: Final = 14
_GAP: Final = 24
_HEAD: Final = 28
_CELL: Final = _SIDE + 2 * FRAME + 4
# of the first column, whose words are longer
_WIDE: Final = 2 * _CELL
_HEADINGS: Final = (
    "its vote (green: right)",
    "labelled images that voted (green: for the winner)",
    "positives drawn",
)
_NOTHING: Final = torch.full((3, 1, 1), 200, dtype=torch.uint8)


class Row(NamedTuple):
    """One image: the vote for it, in words, and the images behind it, NO_IMAGE among them."""

    image: int
    words: str
    right: int | None
    voters: list[tuple[int, str, bool]]
    """Image, words, and whether it is of the class that won."""
    positives: list[int]


def positives_sheet(training: Training, config: Config, dataset: Dataset) -> Image.Image:
    """At most twelve rows, the same images whenever it is made; the run is left as it was.

    The image: a green frame where the vote is right, red where it is wrong, black where nobody knows. Voters:
    green where they are of the class that won. Positives have the frame of the vote that chose them.
    """
    free_N = (dataset.labels_M == UNLABELLED).nonzero().squeeze(1)
    index_N = evenly(free_N if len(free_N) else torch.arange(len(dataset.labels_M)), _ROWS)
    with torch.random.fork_rng(devices=[]):  # who reads files draws a seed
        rows = _rows(training, config, dataset, index_N)
        wanted = {image for row in rows for image in (row.image, *row.positives)}
        wanted |= {image for row in rows for image, _, _ in row.voters}
        shown = sorted(wanted - {NO_IMAGE})
        tiles = gather(dataset.images[torch.tensor(shown)], partial(whole_crop, _SIDE), workers=0)
    return drawn(rows, dict(zip(shown, tiles, strict=True)))


def _rows(training: Training, config: Config, dataset: Dataset, index_N: Tensor) -> list[Row]:
    seen, images_C = see(training, config, dataset, index_N), images_in(training, config, dataset)
    labels_C, names = queue_of(training).labels_C.cpu(), dataset.classes
    rows = []
    for n, right in enumerate(judged(dataset, index_N, seen.labels_N)):
        vote, count = int(seen.labels_N[n]), int(seen.counts_N[n])
        slots = [slot for slot in seen.voters_NJK[n].flatten().tolist() if slot != NO_SLOT]
        # the queue may hold an image several times
        times = Counter((int(images_C[slot]), int(labels_C[slot])) for slot in slots)
        voters = [
            (image, f"{names[label]} ({count})", label == vote)
            for (image, label), count in times.most_common(_VOTERS)
        ]
        words = "no vote" if vote == UNLABELLED else f"{names[vote]}, {count} of {config.num_ballots}"
        drawn_P = [slot for slot in seen.positives_NP[n].tolist() if slot != NO_SLOT]
        positives = images_C[drawn_P[:_POSITIVES]].tolist()
        rows.append(Row(int(index_N[n]), words, right, voters, positives))
    return rows


def drawn(rows: Sequence[Row], tiles: Mapping[int, Tensor]) -> Image.Image:
    """The rows below each other; an entry of the queue that is no image is grey."""
    voters = max(4, *(len(row.voters) for row in rows))
    positives = max(2, *(len(row.positives) for row in rows))
    lefts = (_GAP, 2 * _GAP + _WIDE, 3 * _GAP + _WIDE + _CELL * voters)
    size = (lefts[2] + _CELL * positives + _GAP, _HEAD + len(rows) * (_CELL + _LINE) + _GAP // 2)
    sheet = Image.new("RGB", size, "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=11)
    for left, words in zip(lefts, _HEADINGS, strict=True):
        draw.text((left, 6), words, fill="black", font=font)

    def put(image: int, left: int, top: int, frame: str, words: str = "", wide: int = _SIDE) -> None:
        paste_framed(sheet, tiles.get(image, _NOTHING), (left, top), _SIDE, frame)
        draw.text((left, top + _SIDE + FRAME), shortened(words, font, wide), fill="black", font=font)

    for i, row in enumerate(rows):
        top = _HEAD + i * (_CELL + _LINE)
        frame = NEUTRAL if row.right is None else (WRONG, RIGHT)[row.right]
        put(row.image, lefts[0], top, frame, row.words, _WIDE)
        for column, (image, words, agrees) in enumerate(row.voters):
            put(image, lefts[1] + column * _CELL, top, RIGHT if agrees else WRONG, words)
        for column, image in enumerate(row.positives):
            put(image, lefts[2] + column * _CELL, top, frame)
    return sheet
