"""The run directory: complete, portable, and never overwritten by accident. No torch here."""

import json
import os
import platform
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any, final

from semppl.core.errors import UserError

_MARK = "config.yaml"


def write_atomically(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write through a temporary file beside the target, flushed to disk and then renamed over it."""
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

    @property
    def exists(self) -> bool:
        """Whether a run is here."""
        return self.config.is_file()

    @property
    def _full(self) -> bool:
        return self.path.is_dir() and any(self.path.iterdir())

    def require_free(self, *, overwrite: bool, resumable: bool = True) -> None:
        """Refuse a place where a new run would be in somebody's way."""
        if self.path.is_file():
            raise UserError(f"{self.path} is a file: choose another --out")
        if self._full and not overwrite:
            hint = "go on with --resume, " if resumable else ""
            raise UserError(
                f"{self.path} is not empty: {hint}replace it with --overwrite, or choose another --out"
            )
        if self._full and not self.exists:
            raise UserError(
                f"{self.path} holds no run of ours, so it is not overwritten: choose another --out"
            )

    def prepare_(self, config: str, *, overwrite: bool) -> None:
        """Make the folder of a new run with its configuration; a folder that holds anything else stays."""
        self.require_free(overwrite=overwrite)
        try:
            if self._full:  # aside first: what a crash leaves is either a run or not in the way
                aside = self.path.resolve().with_name(f".{self.path.name}.{os.getpid()}.old")
                self.path.resolve().replace(aside)
                shutil.rmtree(aside)
            self.path.resolve().mkdir(parents=True, exist_ok=True)
            write_text(self.config, config)
        except OSError as error:
            raise UserError(
                f"cannot write to {self.path} ({error.strerror}): choose another --out"
            ) from error

    def require(self) -> None:
        """Refuse a folder without a run."""
        if not self.exists:
            raise UserError(f"{self.path} holds no run (no {_MARK}): check --out, or start without --resume")

    def append_metrics(self, row: dict[str, Any]) -> None:
        """One line of metrics.jsonl."""
        with self.metrics.open("a") as file:
            file.write(json.dumps(row) + "\n")

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


def environment() -> dict[str, Any]:
    """Versions and machine."""
    packages = {}
    for name in ("semppl", "torch", "torchvision", "timm", "numpy", "scikit-learn"):
        with suppress(PackageNotFoundError):
            packages[name] = version(name)
    return {"python": sys.version.split()[0], "platform": platform.platform(), "packages": packages}
