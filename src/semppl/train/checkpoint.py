"""Checkpoints of a run: written as a whole, verified before they are read, the newest few kept.

A checkpoint is a zip archive, as torch writes it, and each record carries its CRC-32. Reading does not look
at it, so it is compared here first. It covers all that is used and travels with the file; a file of checksums
beside it would cover no more, and a crash between the two would make a sound checkpoint look damaged.
"""

import errno
from collections.abc import Callable
from functools import partial
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any, Final, NamedTuple, cast, final
from zipfile import ZipFile, ZipInfo

import torch

from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory, write_atomically

FORMAT: Final = 1
NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
"""What a full disk says."""
Say = Callable[[str], None]


class Found(NamedTuple):
    """Where a checkpoint lies, and what it holds."""

    path: Path
    content: dict[str, Any]


class Damaged(UserError):
    """What is on the disk is not what was written."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is damaged ({reason})")


def keep_checkpoint(run: RunDirectory, state: dict[str, Any], facts: dict[str, Any], *, keep: int) -> Path:
    """Write checkpoints/step-XXXXXXXX.ckpt, point `last` at it, and only then drop all but the newest `keep`.

    Later steps go, too: the run went back behind them, so they are damaged and would stand in the way.
    """
    path = write_checkpoint(run, state, facts)
    _point_last_at_(path)
    known = _checkpoints(run)
    kept = [each for each in known if each <= path][-max(keep, 1) :]
    for old in known:
        if old not in kept:
            old.unlink(missing_ok=True)
    return path


def checkpoint_path(run: RunDirectory, step: int) -> Path:
    """Names sort as steps do."""
    return run.checkpoints / f"step-{step:08d}.ckpt"


def write_checkpoint(run: RunDirectory, state: dict[str, Any], facts: dict[str, Any]) -> Path:
    """The file itself, written as a whole or not at all."""
    path = checkpoint_path(run, state["step"])
    write_atomically(path, partial(_save, {"format": FORMAT, **facts, "state": state}))
    return path


def newest_checkpoint(run: RunDirectory) -> Path | None:
    """Sound or not; None where none was written yet."""
    return max(_checkpoints(run), default=None)


def sound_checkpoint(run: RunDirectory, say: Say) -> Found | None:
    """The newest that can be read, or None where none was written yet; says which newer ones are damaged."""
    damaged: list[Damaged] = []
    for path in reversed(_checkpoints(run)):
        try:
            content = _read(path)
        except FileNotFoundError:  # dropped by a run at work, which has written a newer one
            return sound_checkpoint(run, say)
        except Damaged as error:
            damaged.append(error)
        else:
            for each in damaged:
                say(f"{each}: going on with {path.name}")
            return Found(path, content)
    if damaged:
        raise UserError(
            f"{damaged[0]}, and this run has no other checkpoint that can be read: start a new run, with "
            "another --out or with --overwrite"
        )
    return None


def required_checkpoint(run: RunDirectory, say: Say) -> Found:
    """The same, where there must be one."""
    if (found := sound_checkpoint(run, say)) is None:
        run.require_no_copy()
        raise UserError(
            f"{run.path}: no checkpoint yet: go on with `semppl pretrain --resume --out {run.quoted}`"
        )
    return found


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Tensors and plain values only, on the CPU: nothing in the file is executed."""
    if not path.is_file():
        raise UserError(f"{path}: no such checkpoint")
    try:
        return _read(path)
    except Damaged as error:
        raise UserError(f"{error}, or no checkpoint: give another one") from error


def _checkpoints(run: RunDirectory) -> list[Path]:
    return sorted(path for path in run.checkpoints.glob("step-*.ckpt") if path.is_file())


def _point_last_at_(path: Path) -> None:
    link = path.with_name(".last.new")
    link.unlink(missing_ok=True)
    try:
        link.symlink_to(path.name)
    except OSError as error:  # some disks have no links, and nothing here needs this one
        if error.errno in NO_ROOM:
            raise
        return
    link.replace(path.with_name("last"))


def _read(path: Path) -> dict[str, Any]:
    _verify(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except UnpicklingError as error:  # its checksum is right, so it was written like that
        raise UserError(
            f"{path}: holds more than tensors and plain values: not ours, and not read"
        ) from error
    except Exception as error:
        raise Damaged(path, _first_line(error)) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UserError(f"{path}: not a checkpoint of this version")
    return content


def _verify(path: Path) -> None:
    """Compare the checksum of every record."""
    try:
        with ZipFile(path) as archive:
            wrong = archive.testzip() or next(
                (each.filename for each in archive.infolist() if _skipped(each)), None
            )
    except FileNotFoundError:
        raise
    except PermissionError as error:
        raise UserError(f"{path}: may not be read ({error.strerror})") from error
    except Exception as error:  # a flipped bit may ask for anything, such as a password
        raise Damaged(path, _first_line(error)) from error
    if wrong is not None:
        raise Damaged(path, f"the checksum or the entry of {wrong} is wrong")


def _skipped(record: ZipInfo) -> bool:
    """Torch reads nothing where an entry has the mark of a folder: its tensor is what was in memory."""
    return record.is_dir() or record.external_attr != 0


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _save(content: dict[str, Any], file: IO[bytes]) -> None:
    sink = _Sink(file)
    torch.save(content, cast(IO[bytes], sink))
    if sink.error is not None:
        raise sink.error


@final
class _Sink:
    """Keeps an error of the disk to itself until torch is done, which would turn it into one of its own."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.error: OSError | None = None

    def write(self, data: memoryview) -> int:
        """All of it, or nothing after the first error."""
        if self.error is None:
            try:
                self._file.write(data)
            except OSError as error:
                self.error = error
        return data.nbytes

    def flush(self) -> None:
        """By the owner of the file."""
