"""A folder that appears as a whole or not at all; one that was there before stays until then."""

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from semppl.core.errors import UserError


def require_free(place: Path, *, ours: Collection[str], overwrite: bool) -> None:
    """Refuse a place where something is in the way; only files with names of `ours` are ever replaced."""
    if (around := _existing(place)) != place.absolute() and not around.is_dir():
        raise UserError(f"{around} is a file: choose another --out")
    if place.exists() and not place.is_dir():
        raise UserError(f"{place} is a file: choose another --out")
    found = sorted(place.iterdir()) if place.is_dir() else []
    strange = [each.name for each in found if each.name not in ours or not each.is_file()]
    if strange:
        raise UserError(f"{place} holds more than an export ({strange[0]}): choose another --out")
    if found and not overwrite:
        raise UserError(f"{place} is there already: choose another --out, or use --overwrite")


@contextmanager
def staged(place: Path) -> Iterator[Path]:
    """An empty folder on the disk of `place`, gone at the end unless `put_` has moved it there."""
    around = next(each for each in place.resolve().parents if each.is_dir())
    folder = around / f".{place.name}.{os.getpid()}.tmp"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def put_(folder: Path, place: Path) -> None:
    """Move a finished folder to its place."""
    place = place.resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    before = place.with_name(f".{place.name}.{os.getpid()}.old")
    if place.exists():
        place.replace(before)
    try:
        folder.replace(place)
    except OSError:
        if before.exists():
            before.replace(place)
        raise
    shutil.rmtree(before, ignore_errors=True)


def _existing(place: Path) -> Path:
    absolute = place.absolute()
    return next(each for each in (absolute, *absolute.parents) if each.exists())
