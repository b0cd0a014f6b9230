"""The folder of masks: what lies where in it, with which settings it was made, and what of it is ours."""

import json
import shutil
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, final

from semppl.core.errors import UserError
from semppl.core.lock import LOCK
from semppl.core.rundir import write_text
from semppl.data.masks import MARK
from semppl.saliency.index import Index

_PACKAGES: Final = ("semppl", "numpy", "scipy", "opencv-contrib-python-headless")


@final
class Place:
    """Paths in one folder of masks."""

    def __init__(self, path: Path) -> None:
        self.path, self.masks, self.index = path, path / "masks", path / "index.csv"
        self.about, self.work, self.sheet = path / MARK, path / "work", path / "sheet.jpg"
        self.refiner, self.bad, self.scores = (
            path / "refiner.pt",
            path / "bad_files.csv",
            path / "scores.json",
        )
        self.known, self.maps, self.training = (
            self.work / name for name in ("known.npy", "maps", "training")
        )

    def record(self) -> dict[str, Any] | None:
        """What masks.json says; None where there is none."""
        if not self.about.is_file():
            return None
        try:
            said = json.loads(self.about.read_text(encoding="utf-8", errors="surrogateescape"))
            if isinstance(said, dict) and isinstance(said.get("settings"), dict):
                return said
        except (OSError, ValueError):
            pass
        raise UserError(f"{self.about} is damaged: use --overwrite or another --out")

    def write_record(self, settings: dict[str, Any], **facts: Any) -> None:
        """Settings, versions, and what is known by now."""
        versions = {name: found for name in _PACKAGES if (found := _version(name)) is not None}
        said = {"settings": settings, "versions": versions, **facts}
        write_text(self.about, json.dumps(said, indent=2, ensure_ascii=False) + "\n")


def require_ours(place: Place) -> None:
    """Refuse a folder in which there is something else."""
    if place.path.exists() and not place.path.is_dir():
        raise UserError(f"{place.path} is a file: choose another --out")
    if place.about.is_file() or not place.path.is_dir():
        return
    if strange := sorted(each.name for each in place.path.iterdir() if each.name != LOCK):
        raise UserError(f"{place.path} holds something else ({strange[0]}): choose another --out")


def require_same(place: Place, settings: dict[str, Any]) -> None:
    """Refuse to add masks to others that were made in another way."""
    said = place.record()
    if said is None:
        return
    before = said["settings"]
    if different := [name for name in settings if before.get(name) != settings[name]]:
        was, now = (", ".join(_words(name, of.get(name)) for name in different) for of in (before, settings))
        raise UserError(
            f"{place.path} was made with {was}, and this command asks for {now}: use --overwrite or another "
            "--out"
        )


def clear_(place: Place) -> None:
    """Remove what we made, and nothing else; what tells that the folder is ours stays."""
    for name in Index(place.index, place.masks).rows:
        (place.masks / name).unlink(missing_ok=True)
    if place.masks.is_dir():
        for folder in sorted((each for each in place.masks.rglob("*") if each.is_dir()), reverse=True):
            with suppress(OSError):  # somebody else's file is in it
                folder.rmdir()
    with suppress(OSError):
        place.masks.rmdir()
    shutil.rmtree(place.work, ignore_errors=True)
    for file in (place.index, place.refiner, place.sheet, place.bad, place.scores):
        file.unlink(missing_ok=True)


def _words(name: str, value: object) -> str:
    if name == "refined":
        return "refined masks" if value else "fused masks"
    words = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{name.replace('_', ' ')} {words}"


def _version(package: str) -> str | None:
    with suppress(Exception):
        return version(package)
    return None
