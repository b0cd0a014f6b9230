"""Two processes that write into one folder would spoil each other's files, so the first one locks it.

The lock is the kernel's, which takes it back when its process ends in whatever way: none is ever left behind.
The file that carries it says whose it is.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semppl.core.errors import UserError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK: Final = ".lock"


@dataclass
class _Hold:
    descriptor: int | None
    """None where the system has no locks."""
    made: list[Path]
    """Folders that the lock needed, innermost first."""
    count: int = 1


_holds: Final[dict[Path, _Hold]] = {}
_guard: Final = threading.RLock()


@contextmanager
def locked(folder: Path, flag: str = "--out") -> Iterator[None]:
    """Nobody else has the folder, which `flag` named, meanwhile; the same process may lock it more than once.

    A folder that is not there is made, and gone again at the end if nothing was put into it.
    """
    place = folder.resolve()
    with _guard:
        if place in _holds:
            _holds[place].count += 1
        else:
            _holds[place] = _take(folder, place, flag)
    try:
        yield
    finally:
        with _guard:
            _release_(place)


def held(folder: Path) -> bool:
    """Whether this process has locked it."""
    with _guard:
        return folder.resolve() in _holds


def in_use(folder: Path) -> bool:
    """Whether a process has locked it, this one included."""
    if held(folder):
        return True
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a disk without locks tells nothing
        return False
    finally:
        os.close(descriptor)
    return False


def lost(folder: Path) -> bool:
    """Whether the folder that this process has locked was removed, or is another one by now."""
    with _guard:
        hold = _holds.get(folder.resolve())
        if hold is None or hold.descriptor is None:
            return False
        return not _is_at(folder.resolve() / LOCK, hold.descriptor)


def _take(folder: Path, place: Path, flag: str) -> _Hold:
    if fcntl is None:
        return _Hold(None, [])
    if place.is_file():
        raise UserError(f"{folder} is a file: choose another {flag}")
    missing: list[Path] = []
    try:
        missing += [each for each in (place, *place.parents) if not each.exists()]
        place.mkdir(parents=True, exist_ok=True)
        descriptor = _acquired(place / LOCK)
    except OSError as error:
        _remove_empty_(missing)
        raise UserError(f"cannot write to {folder} ({error.strerror}): choose another {flag}") from error
    if descriptor is None:
        raise UserError(
            f"{folder} is in use by {_holder(place / LOCK)}: wait for it, or choose another {flag}"
        )
    with suppress(OSError):  # a full disk: the lock holds without its words
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode())
    return _Hold(descriptor, missing)


def _acquired(file: Path) -> int | None:
    """A descriptor that holds the lock; None where another process does."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:  # some network disks know no locks, and are used without
            return descriptor
        if _is_at(file, descriptor):
            return descriptor
        os.close(descriptor)  # its last holder has removed it just now


def _is_at(file: Path, descriptor: int) -> bool:
    """Whether a file is still the one that was opened."""
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except OSError:
        return False


def _holder(file: Path) -> str:
    try:
        pid, host = file.read_text().split()
    except (OSError, ValueError):
        return "another process"
    return f"process {pid} on {host}"


def _release_(place: Path) -> None:
    if (hold := _holds.get(place)) is None:  # a child of the process that has it
        return
    hold.count -= 1
    if hold.count:
        return
    del _holds[place]
    if hold.descriptor is None:
        return
    file = place / LOCK
    if _is_at(file, hold.descriptor):
        with suppress(OSError):
            file.unlink()
    os.close(hold.descriptor)
    _remove_empty_(hold.made)


def _remove_empty_(folders: list[Path]) -> None:
    for each in folders:
        with suppress(OSError):
            each.rmdir()


def _forget_() -> None:
    """In a child: a worker that outlives its parent for a moment must not keep the parent's lock."""
    for hold in _holds.values():
        if hold.descriptor is not None:
            os.close(hold.descriptor)
    _holds.clear()
    _guard.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_forget_)
