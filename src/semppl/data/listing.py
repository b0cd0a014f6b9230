"""Which images lie below a folder. No torch here, and no object for each file.

Shapes: M images.
"""

import os
import stat
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from semppl.core.counted import counted
from semppl.core.errors import UserError
from semppl.data.paths import Paths

SUFFIXES: Final = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jif", ".jfif", ".png", ".webp", ".gif", ".tif", ".tiff", ".bmp"}
)
UNREAD_SUFFIXES: Final = frozenset(
    {".arw", ".avif", ".cr2", ".cr3", ".dng", ".heic", ".heif", ".jxl", ".nef", ".psd", ".svg"}
)
"""Of images that are not read; they are counted, so that nobody wonders where they are."""
READABLE: Final = "to JPEG or PNG"
"""What such an image is to be converted to."""
NO_BYTES: Final = -1
"""The length of a file that cannot be asked for it, such as a broken link."""

# what unpacking a zip file of a Mac leaves beside the images
_PASSED_OVER: Final = "__MACOSX"


@dataclass(frozen=True, eq=False)
class Listing:
    """Images, sorted by path, so that the order is the same on every machine."""

    paths: Paths
    """Relative to the folder, with forward slashes."""
    bytes_M: NDArray[np.int64]
    mtime_M: NDArray[np.int64]
    """When each file was changed, in nanoseconds."""
    unreadable_folders: tuple[str, ...] = ()
    unread: str = ""
    """A phrase that counts the images of kinds that are not read, if there are any."""


@dataclass(frozen=True, eq=False)
class _Folder:
    """One folder's images and folders, sorted; the name of a folder ends in a slash."""

    names: Paths
    sizes: "array[int]"
    times: "array[int]"
    unread: Mapping[str, int]
    """How many images it has of each kind that is not read, by suffix."""


def is_image_name(name: str) -> bool:
    """Whether a name ends as those of images do that are read."""
    return _suffix(name) in SUFFIXES


def is_unread_image(name: str) -> bool:
    """Whether it ends as those of images do that are not read."""
    return _suffix(name) in UNREAD_SUFFIXES


def _suffix(name: str) -> str:
    return name[name.rfind(".") :].lower()


def list_images(root: Path) -> Listing:
    """All images at any depth, known by their suffix.

    Hidden files and folders are passed over. Links are followed, but each real folder is listed once: by its
    own name if it has one below `root`, else by the first of the links to it.
    """
    if not root.is_dir():
        raise UserError(
            f"{root} is a file: give the folder of the images"
            if root.exists()
            else f"{root}: no such folder of images"
        )
    folders, unreadable = _walk(root)
    if "" not in folders:
        raise UserError(f"{root}: this folder cannot be opened: check its permissions")
    unread = _counted_kinds(folders.values())
    sizes, times = array("q"), array("q")
    paths = Paths(_in_order(folders, sizes, times))
    if not len(paths):
        closed = f"; {len(unreadable)} of its folders cannot be opened" if unreadable else ""
        kinds = f"; {unread}" if unread else ""
        raise UserError(
            f"{root}: no image found in this folder ({', '.join(sorted(SUFFIXES))}){closed}{kinds}"
        )
    return Listing(
        paths,
        np.array(sizes, np.int64),
        np.array(times, np.int64),
        unreadable_folders=tuple(sorted(unreadable)),
        unread=unread,
    )


def _counted_kinds(folders: Iterable[_Folder]) -> str:
    total: Counter[str] = Counter()
    for folder in folders:
        total.update(folder.unread)
    kinds = [counted(count, f"file {suffix}", f"files {suffix}") for suffix, count in sorted(total.items())]
    are = "is not read: convert it" if total.total() == 1 else "are not read: convert them"
    return f"{' and '.join(kinds)} {are} {READABLE}" if kinds else ""


def _walk(root: Path) -> tuple[dict[str, _Folder], list[str]]:
    """Every real folder by its path with a slash at its end, and those that cannot be opened.

    Links to folders wait until all others are done.
    """
    folders: dict[str, _Folder] = {}
    unreadable: list[str] = []
    seen: set[tuple[int, int]] = set()
    waiting, links = [""], list[str]()
    while waiting or links:
        if not waiting:
            links.sort(reverse=True)
        place = waiting.pop() if waiting else links.pop()
        path = root / place
        try:
            real = path.stat()
            if (real.st_dev, real.st_ino) in seen:
                continue
            seen.add((real.st_dev, real.st_ino))
            folders[place], inner, linked = _read(path)
        except OSError:
            unreadable.append(place.rstrip("/"))
            continue
        waiting += [place + name for name in sorted(inner, reverse=True)]
        links += [place + name for name in linked]
    return folders, unreadable


def _read(path: Path) -> tuple[_Folder, list[str], list[str]]:
    """One folder, the folders in it, and the links to folders in it."""
    names, inner, linked = list[str](), list[str](), list[str]()
    sizes, times = array("q"), array("q")
    unread: Counter[str] = Counter()
    with os.scandir(path) as entries:
        for entry in entries:
            if (found := _look(entry)) is None:
                if (suffix := _suffix(entry.name)) in UNREAD_SUFFIXES and entry.name[0] != ".":
                    unread[suffix] += 1
            else:
                name, size, time = found
                names.append(name)
                sizes.append(size)
                times.append(time)
                if name[-1] == "/":
                    (linked if entry.is_symlink() else inner).append(name)
    # with its slash a folder sorts as the paths below it do
    order = sorted(range(len(names)), key=names.__getitem__)
    folder = _Folder(
        names=Paths(names[i] for i in order),
        sizes=array("q", (sizes[i] for i in order)),
        times=array("q", (times[i] for i in order)),
        unread=unread,
    )
    return folder, inner, linked


def _look(entry: os.DirEntry[str]) -> tuple[str, int, int] | None:
    """Name, bytes and time of an image or a folder; None for anything else."""
    name = entry.name
    if name.startswith(".") or name == _PASSED_OVER:
        return None
    is_image = is_image_name(name)
    try:
        if not is_image:
            return (name + "/", 0, 0) if entry.is_dir() and not _holds_a_run(entry.path) else None
        found = entry.stat()
    except OSError:
        return (name, NO_BYTES, 0) if is_image else None
    if stat.S_ISREG(found.st_mode):
        return name, found.st_size, found.st_mtime_ns
    return (name + "/", 0, 0) if stat.S_ISDIR(found.st_mode) else None


def _holds_a_run(folder: str) -> bool:
    """The pictures of a run of ours are not data, and neither are masks."""
    files = ("split.sha256", "config.yaml")
    return all((Path(folder) / file).is_file() for file in files) or (Path(folder) / "masks.json").is_file()


def _in_order(folders: dict[str, _Folder], sizes: "array[int]", times: "array[int]") -> Iterator[str]:
    """The paths of all images, sorted; their bytes and times are added to the arrays."""
    stack = [("", _entries(folders[""]))]
    while stack:
        place, entries = stack[-1]
        for name, size, time in entries:
            if name[-1] != "/":
                sizes.append(size)
                times.append(time)
                yield place + name
            elif place + name in folders:
                # taken out: what is done needs no memory any more
                stack.append((place + name, _entries(folders.pop(place + name))))
                break
        else:
            stack.pop()


def _entries(folder: _Folder) -> Iterator[tuple[str, int, int]]:
    return zip(folder.names, folder.sizes, folder.times, strict=True)
