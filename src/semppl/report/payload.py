"""What the scripts of the page read: data that stays data, whatever names are in it."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semppl.report.exhibit import Exhibit
from semppl.report.figures import Chart
from semppl.report.text import plain
from semppl.report.thumbnails import Sheet, place


def embedded(value: object) -> str:
    """JSON for inside of a script element: ASCII, and without any character that could end it."""
    text = json.dumps(_plain(value), allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def sha256(text: str) -> str:
    """As a content security policy names what may run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def charts_data(charts: Sequence[Chart]) -> dict[str, Any]:
    """By their ids."""
    return {
        chart.id: {
            "data": list(chart.data),
            "layout": {**chart.layout, "height": chart.height},
            "readout": dict(chart.readout),
        }
        for chart in charts
    }


def exhibit_data(
    exhibit: Exhibit, sheets: Sequence[Sheet | None], umap_N2: NDArray[np.float32] | None
) -> dict[str, Any]:
    """Images, the sample, its maps and the gallery; thumbnails as [sheet, x %, y %]."""
    maps = {"PCA": [_rounded(exhibit.x_N), _rounded(exhibit.y_N)]}
    if umap_N2 is not None:
        maps["UMAP"] = [_rounded(umap_N2[:, 0].tolist()), _rounded(umap_N2[:, 1].tolist())]
    return {
        "classes": list(exhibit.classes),
        "ballots": exhibit.ballots,
        "names": list(exhibit.names_T),
        "labels": list(exhibit.labels_T),
        "roles": list(exhibit.roles_T),
        "tiles": [_tile(tile, exhibit, sheets) for tile in range(len(exhibit.names_T))],
        "image": list(exhibit.image_N),
        "vote": list(exhibit.vote_N),
        "votes": list(exhibit.votes_N),
        "tied": list(exhibit.tied_N),
        "right": list(exhibit.right_N),
        "maps": maps,
        "gallery": [
            {
                "of": card.of,
                "ballots": list(card.ballots_J),
                "voters": [
                    [[image, round(cosine, 3)] for image, cosine in voters] for voters in card.voters_J
                ],
                "positives": list(card.positives),
            }
            for card in exhibit.gallery
        ],
    }


def _tile(tile: int, exhibit: Exhibit, sheets: Sequence[Sheet | None]) -> list[float] | None:
    found = place(tile, exhibit.tiles, sheets)
    return None if found is None else [found.sheet, round(found.x, 3), round(found.y, 3)]


def _rounded(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.4g}") for value in values]


def _plain(value: Any) -> Any:
    """All text, keys included, without what is invisible or half a character."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {_plain(key): _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
