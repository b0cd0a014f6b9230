"""The run directory: complete, portable, and never overwritten by accident. No torch here."""

import json
import os
import platform
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any, Final, final

from semppl.core.errors import UserError
from semppl.core.lock import LOCK, held, locked

_MARK: Final = "config.yaml"
KEPT: Final = "kept.json"
"""In the small copy of a run that `semppl report --keep` leaves, and nowhere else."""
# what a process that was killed leaves of a file that it was writing
_REST: Final = re.compile(r"\.(?P<name>.+)\.\d+\.tmp")
# how our configurations begin: other programs have a config.yaml, too
_BEGINNING: Final = "source: "


def write_atomically(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write through a temporary file beside the target, flushed to disk and then renamed over it.

    The folder is flushed, too: until then a power cut may forget the new name. A link stays and what it leads
    to is written; so is a device or a pipe, which nothing can be renamed over.
    """
    if is_stream(path):
        with path.open("wb") as file:
            write(file)
        return
    path = written_at(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def is_stream(path: Path) -> bool:
    """Whether it is a device or a pipe, which is written and neither replaced nor looked into."""
    return path.exists() and not (path.is_file() or path.is_dir())


def written_at(path: Path) -> Path:
    """Where a file is written: a link stays, and what it leads to is replaced."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _flush_folder(folder: Path) -> None:
    with suppress(OSError):  # not every system opens a folder, nor flushes it
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """A text file, atomically; names of files that are no valid text go back to their bytes."""
    write_atomically(path, lambda file: file.write(text.encode(errors="surrogateescape")))


@final
class RunDirectory:
    """Paths and files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config, self.split, self.metrics = path / _MARK, path / "split.csv", path / "metrics.jsonl"
        self.split_sha256, self.environment = path / "split.sha256", path / "environment.json"
        self.checkpoints, self.evaluations = path / "checkpoints", path / "evaluations"
        self.bad_files, self.model = path / "bad_files.csv", path / "model"
        self.started_from, self.kept = path / "started_from.json", path / KEPT

    @property
    def quoted(self) -> str:
        """Its path as a shell wants it, for commands that a user is told."""
        return shlex.quote(str(self.path))

    @property
    def exists(self) -> bool:
        """Whether a run is here."""
        return self.config.is_file()

    def locked(self) -> AbstractContextManager[None]:
        """`with run.locked()`: no other process writes here meanwhile."""
        return locked(self.path)

    @property
    def _ours(self) -> bool:
        """Whether what is here may be replaced. A run that was killed at its very start has no split yet."""
        return self.exists and (
            self.split_sha256.is_file() or self.config.read_text(errors="replace").startswith(_BEGINNING)
        )

    @property
    def _content(self) -> list[Path]:
        """All but the lock and what a process that was killed at its very start leaves."""
        found = list(self.path.iterdir()) if self.path.is_dir() else []
        return [each for each in found if each.name != LOCK and _unfinished(each) != _MARK]

    def require_free(
        self, *, overwrite: bool, resumable: bool = True, given: Iterable[str | Path | None] = ()
    ) -> None:
        """Refuse a place where a new run would be in somebody's way, or in that of what it is made from."""
        if self.path.is_file():
            raise UserError(f"{self.path} is a file: choose another --out")
        if self._content and not self._ours:
            raise UserError(f"{self.path} is not empty and holds no run of ours: choose another --out")
        if self._content and not overwrite:
            hint = "go on with --resume, " if resumable else ""
            raise UserError(
                f"{self.path} is not empty: {hint}replace it with --overwrite, or choose another --out"
            )
        here = self.path.resolve()
        for place in (Path(each).resolve() for each in given if self._content and each):
            if place.exists() and here in (place, *place.parents):
                raise UserError(f"{place} lies in {self.path}, which would be replaced: choose another --out")

    def prepare_(self, config: str, *, overwrite: bool) -> None:
        """Make the folder of a new run with its configuration; a folder that holds anything else stays."""
        self.require_free(overwrite=overwrite)
        with self.locked():
            self.require_free(overwrite=overwrite)  # somebody may have come first
            try:
                self._clear_()
                self.path.resolve().mkdir(parents=True, exist_ok=True)
                write_text(self.config, config)
            except OSError as error:
                raise UserError(
                    f"cannot write to {self.path} ({error.strerror}): choose another --out"
                ) from error

    def _clear_(self) -> None:
        """Aside first, and the configuration last: what a crash leaves is either a run or not in the way.

        The folder itself stays, and with it the lock.
        """
        self.sweep_()
        if not (content := self._content):
            return
        aside = self.path.resolve().with_name(f".{self.path.name}.{os.getpid()}.old")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        for each in sorted(content, key=lambda path: path.name == _MARK):
            each.replace(aside / each.name)
        shutil.rmtree(aside)

    def sweep_(self) -> None:
        """Remove what a killed process had not finished writing; only for who has locked the folder."""
        if not held(self.path):
            raise ValueError(f"{self.path} is not locked")
        ours = (self.config, self.split, self.metrics, self.split_sha256, self.environment, self.bad_files)
        names = {path.name for path in (*ours, self.started_from)}
        for each in self.path.glob(".*.tmp"):
            if _unfinished(each) in names:
                each.unlink(missing_ok=True)
        for each in self.checkpoints.glob(".step-*.tmp"):
            if _unfinished(each) is not None:
                each.unlink(missing_ok=True)

    def require(self) -> None:
        """Refuse a folder without a run."""
        if not self.exists:
            raise UserError(f"{self.path} holds no run (no {_MARK}): check --out, or start without --resume")
        self.require_no_copy()

    def require_no_copy(self) -> None:
        """Refuse what `semppl report --keep` left of a run: going on there would lose its metrics."""
        if self.kept.is_file():
            raise UserError(
                f"{self.path} is a small copy of a run, for tables alone ({KEPT}), without weights: use the "
                "run itself"
            )

    def append_metrics(self, row: dict[str, Any]) -> None:
        """One line of metrics.jsonl, as a whole or not at all."""
        line = memoryview((json.dumps(row) + "\n").encode())
        with self.metrics.open("ab", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            try:
                while line:
                    line = line[file.write(line) :]
            except BaseException:
                with suppress(OSError):
                    file.truncate(end)
                raise

    def read_metrics(self) -> list[dict[str, Any]]:
        """All lines of metrics.jsonl; a line cut off by a crash is passed over."""
        rows = []
        if self.metrics.is_file():
            for line in self.metrics.read_text().splitlines():
                with suppress(json.JSONDecodeError):
                    rows.append(json.loads(line))
        return rows

    def forget_metrics_after_(self, step: int) -> None:
        """Drop lines of steps that a resumed run will do again."""
        kept = [row for row in self.read_metrics() if row["step"] <= step]
        write_text(self.metrics, "".join(json.dumps(row) + "\n" for row in kept))

    def write_environment(self, **more: object) -> None:
        """Versions and machine, for trusting a number later."""
        write_text(self.environment, json.dumps(environment() | more, indent=2) + "\n")


def _unfinished(path: Path) -> str | None:
    """The name of the file that it would have become."""
    found = _REST.fullmatch(path.name)
    return None if found is None or not path.is_file() else found["name"]


def environment() -> dict[str, Any]:
    """Versions and machine."""
    packages = {}
    for name in ("semppl", "torch", "torchvision", "timm", "numpy", "scikit-learn"):
        with suppress(PackageNotFoundError):
            packages[name] = version(name)
    return {"python": sys.version.split()[0], "platform": platform.platform(), "packages": packages}
