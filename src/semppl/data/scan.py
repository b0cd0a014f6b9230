"""All images below a folder, looked at once and remembered. No torch here, and no object for each file.

Shapes: M images.
"""

import csv
import io
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, final

import numpy as np
from numpy.typing import NDArray

from semppl.core.cores import usable_cores
from semppl.core.counted import counted
from semppl.core.errors import UserError
from semppl.core.rundir import write_atomically
from semppl.data.checking import Seen, check_files
from semppl.data.files import FLEETING
from semppl.data.listing import NO_BYTES, Listing, list_images
from semppl.data.paths import Paths

Advance = Callable[[int, int], None]
"""Called with the number of files that are done, and of all there are."""

_VERSION: Final = 1
_COLUMNS: Final = ("bytes", "mtime", "width", "height", "problem")
_UNKNOWN: Final = -1
_NAMED: Final = 3


@dataclass(frozen=True)
class Bad:
    """A file that cannot be read, or a folder, whose path ends in a slash."""

    path: str
    reason: str


@dataclass(frozen=True, eq=False)
class Scan:
    """The readable images below a folder, sorted by path, and what cannot be read."""

    root: Path
    paths: Paths
    """Relative to the folder, with forward slashes."""
    widths_M: NDArray[np.int32]
    heights_M: NDArray[np.int32]
    bytes_M: NDArray[np.int64]
    mtime_M: NDArray[np.int64]
    """When each file was changed, in nanoseconds."""
    bad: tuple[Bad, ...] = ()
    unread: str = ""
    """A phrase that counts the images of kinds that are not read, if there are any."""


def scan(
    root: Path,
    *,
    cache: Path | Literal["user"] | None = "user",
    workers: int | None = None,
    advance: Advance | None = None,
) -> Scan:
    """Look at all images, in several processes if there are many.

    What was seen is kept in the folder `cache` and holds for as long as a file's name, size and time stay the
    same. The user's cache is `$XDG_CACHE_HOME/semppl/scans`; None keeps nothing. `workers` is the number of
    processes, by default one for each core. They are spawned: a script that calls this for thousands of files
    needs `if __name__ == "__main__":`.
    """
    listing = list_images(root)
    facts = _Facts(len(listing.paths))
    store = _store(root, cache)
    remembered = 0 if store is None else _recall_(facts, listing, store)
    todo, total = np.flatnonzero(facts.width_M == _UNKNOWN), len(listing.paths)
    done = total - len(todo)
    if advance is not None:
        advance(done, total)
    parts = check_files(root, listing.paths, todo, usable_cores() if workers is None else workers)
    with closing(parts):
        for part, seen in parts:
            facts.put_(part, seen)
            done += len(part)
            if advance is not None:
                advance(done, total)
    if store is not None and (len(todo) or remembered != total):
        _remember(facts, listing, store)
    return _made(root, listing, facts)


def require_readable(found: Scan, *, most: float = 0.05) -> None:
    """Refuse a folder of which more than a share cannot be read."""
    num_bad, total = len(found.bad), len(found.bad) + len(found.paths)
    if num_bad > most * total:
        named = ", ".join(f"{bad.path} ({bad.reason})" for bad in found.bad[:_NAMED])
        more = ", …" if num_bad > _NAMED else ""
        raise UserError(
            f"{found.root}: {num_bad:,} of {counted(total, 'image')} cannot be read: {named}{more}: repair "
            "or remove them, or go on without them by --allow-unreadable"
        )


def bad_table(bad: Iterable[Bad]) -> str:
    """The text of bad_files.csv."""
    text = io.StringIO(newline="")
    table, quoted = csv.writer(text, lineterminator="\n"), csv.writer(text, _Quoted)
    table.writerow(["path", "reason"])
    for row in bad:
        (quoted if "\r" in row.path + row.reason else table).writerow((row.path, row.reason))
    return as_written(text.getvalue())


class _Quoted(csv.excel):
    """For a carriage return, which others than the writer take for the end of a line."""

    lineterminator, quoting = "\n", csv.QUOTE_ALL


def as_written(text: str) -> str:
    """Bytes of a name that are not UTF-8 are written with a backslash."""
    return text.encode(errors="backslashreplace").decode()


def read_bad_table(file: Path) -> dict[str, str]:
    """Path, as it is written there → reason; nothing where there is no such file."""
    if not file.is_file():
        return {}
    try:
        with file.open(newline="", encoding="utf-8") as text:
            return {row["path"]: row["reason"] for row in csv.DictReader(text)}
    except (KeyError, ValueError, csv.Error) as error:
        raise UserError(f"{file}: not a table of path,reason any more: bring it back") from error


@final
class _Facts:
    """What is known of M files; `problem_M` counts in `problems`, where 0 is none."""

    def __init__(self, num_files: int) -> None:
        self.width_M = np.full(num_files, _UNKNOWN, dtype=np.int32)
        self.height_M = np.zeros(num_files, dtype=np.int32)
        self.problem_M = np.zeros(num_files, dtype=np.int32)
        self.problems = {"": 0}

    def put_(self, part: NDArray[np.int64], seen: Seen) -> None:
        """Add what was seen of some files."""
        self.width_M[part], self.height_M[part] = seen.sizes.T
        for row, problem in seen.problems:
            self.problem_M[part[row]] = self.problems.setdefault(problem, len(self.problems))


def _made(root: Path, listing: Listing, facts: _Facts) -> Scan:
    reasons = list(facts.problems)
    bad = [
        Bad(listing.paths[i], reasons[facts.problem_M[i]]) for i in np.flatnonzero(facts.problem_M).tolist()
    ]
    bad += [Bad(f"{folder}/", "folder cannot be opened") for folder in listing.unreadable_folders]
    good = slice(None) if not facts.problem_M.any() else np.flatnonzero(facts.problem_M == 0)
    return Scan(
        root=root,
        paths=listing.paths if isinstance(good, slice) else listing.paths.take(good),
        widths_M=facts.width_M[good],
        heights_M=facts.height_M[good],
        bytes_M=listing.bytes_M[good],
        mtime_M=listing.mtime_M[good],
        bad=tuple(bad),
        unread=listing.unread,
    )


def _store(root: Path, cache: Path | Literal["user"] | None) -> Path | None:
    """The file that remembers a folder."""
    if cache == "user":
        cache = None
        with suppress(RuntimeError):  # no home
            cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "semppl" / "scans"
    name = sha256(os.fsencode(root.resolve())).hexdigest()[:32]
    return None if cache is None else cache / f"{name}.npz"


def _remember(facts: _Facts, listing: Listing, store: Path) -> None:
    columns = (listing.bytes_M, listing.mtime_M, facts.width_M, facts.height_M, facts.problem_M)
    arrays: dict[str, Any] = {
        "version": np.array(_VERSION),
        "names": np.frombuffer(listing.paths.text, dtype=np.uint8),
        "offsets": listing.paths.offsets,
        "problems": np.array(list(facts.problems)),
        **dict(zip(_COLUMNS, columns, strict=True)),
    }
    with suppress(OSError):  # looking again next time is all that is lost
        store.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(store, lambda file: np.savez(file, **arrays))


def _recall_(facts: _Facts, listing: Listing, store: Path) -> int:
    """Take over what still holds. Returns how many files were remembered."""
    try:
        paths, problems, old = _load(store)
    except (
        AttributeError,
        EOFError,
        KeyError,
        OSError,
        TypeError,
        ValueError,
        zipfile.BadZipFile,
        zlib.error,
    ):
        return 0
    place_M = _places(listing.paths, paths)
    lasting_P = np.array([not problem.startswith(FLEETING) for problem in problems])
    known_M = (place_M >= 0) & (listing.bytes_M != NO_BYTES)
    known_M &= old["bytes"][place_M] == listing.bytes_M
    known_M &= old["mtime"][place_M] == listing.mtime_M
    known_M &= lasting_P[old["problem"][place_M]]
    place_K = place_M[known_M]
    facts.width_M[known_M] = old["width"][place_K]
    facts.height_M[known_M] = old["height"][place_K]
    facts.problem_M[known_M] = old["problem"][place_K]
    facts.problems = {problem: number for number, problem in enumerate(problems)}
    return len(paths)


def _load(store: Path) -> tuple[Paths, list[str], dict[str, NDArray[Any]]]:
    """Paths, problems and columns of a file; what is not ours raises."""
    with store.open("rb") as file, np.load(file, allow_pickle=False) as content:
        if int(content["version"]) != _VERSION:
            raise ValueError("of another version")
        paths = Paths.from_buffer(content["names"].tobytes(), content["offsets"])
        problems = [str(problem) for problem in content["problems"]]
        columns = {name: content[name] for name in _COLUMNS}
    number = columns["problem"]
    whole = all(column.shape == (len(paths),) and column.dtype.kind == "i" for column in columns.values())
    if not whole or not len(paths) or problems[:1] != [""] or len(set(problems)) < len(problems):
        raise ValueError("not ours")
    if not 0 <= number.min() <= number.max() < len(problems):
        raise ValueError("not ours")
    return paths, problems, columns


def _places(new: Paths, old: Paths) -> NDArray[np.int64]:
    """Where each new path is in the old ones, −1 where it is not. Both are sorted."""
    place_M = np.arange(len(new))
    if new == old:
        return place_M
    place_M[:] = -1
    others = enumerate(old)
    place, other = next(others)
    for i, path in enumerate(new):
        while other < path:
            place, other = next(others, (-1, path))
        if place < 0:
            break
        if other == path:
            place_M[i] = place
    return place_M
