"""Which flags a command can do without: the other values and the data decide on them (`resolved`)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from semppl.config import Config
from semppl.core.errors import UserError
from semppl.core.stored import load
from semppl.differing import flat
from semppl.presets import PRESETS
from semppl.resolve import resolved

# chosen by more than is known of a run's data: the side of its images, its classes, and masks beside it
_BY_DATA: Final = frozenset({"views.large_size", "method.queue_capacity", "data.masks"})


def to_say(
    values: Mapping[str, Any],
    preset: str,
    differing: Sequence[str],
    num_images: int,
    always: Collection[str] = (),
) -> list[str]:
    """Of the names in which a run differs from a preset, those without which it would be another run, and
    those that are said always.
    """
    usual = flat(asdict(PRESETS[preset]()))
    said = {name for name in differing if usual[name] is not None or name in (*_BY_DATA, *always)}
    try:
        while True:  # what nothing chooses, then one by one: others may come right by themselves
            chosen = _chosen(usual | {name: values[name] for name in said}, values, num_images)
            wrong = [name for name in differing if name not in said and chosen[name] != values[name]]
            if not wrong:
                break
            said |= {name for name in wrong if chosen[name] is None} or {wrong[0]}
    except (UserError, TypeError, ValueError, KeyError, OverflowError):  # of another version, or by hand
        return list(differing)
    return [name for name in differing if name in said]


def _chosen(given: Mapping[str, Any], run: Mapping[str, Any], num_images: int) -> dict[str, Any]:
    rooms: dict[str, Any] = {}
    for name, value in given.items():
        room, _, last = name.rpartition(".")
        (rooms.setdefault(room, {}) if room else rooms)[last] = value
    # an encoder that takes some sizes alone takes those of its run
    config = resolved(
        load(Config, rooms, "a run"), image_size=run["views.large_size"] or 0, num_images=num_images
    )
    return flat(asdict(config))
