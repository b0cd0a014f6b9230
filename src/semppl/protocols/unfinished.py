"""What was done for a result that is not there yet: `evaluations/unfinished/RESULT/`.

Its trainings have bookmarks there, and numbers that took long are remembered; all of it goes when the result
is written, and may be deleted when nothing runs.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from torch import Tensor, nn

from semppl.core.rundir import write_text
from semppl.differing import decisive
from semppl.evaluate.bookmark import Bookmark, Part
from semppl.protocols.bookmarks import BookmarkFile
from semppl.protocols.results import result_file
from semppl.protocols.store import weights_digest
from semppl.protocols.subject import Subject
from semppl.train.build import uses_bf16

UNFINISHED: Final = "unfinished"
EVERY: Final = 300.0
"""Seconds between two copies of a training."""
VERSION: Final = 1
"""To be raised when a training computes something else than before."""


def bookmark_of(
    subject: Subject,
    protocol: str,
    training: str | None,
    *,
    title: str,
    steps: int,
    facts: Mapping[str, Any],
    beside: Mapping[str, Part] | None = None,
) -> AbstractContextManager[Bookmark | None]:
    """Of one training of a protocol, named in a file's name and for people; without a name nothing is kept.

    `facts` are what tells this training from others of the run; `beside` is what counts along.
    """
    if training is None or not subject.resumable:
        return nullcontext()
    return BookmarkFile(
        path=_folder(subject, protocol) / f"{training}.ckpt",
        facts={**_facts(subject), "steps": steps, **facts},
        steps=steps,
        title=title,
        say=subject.desk.say,
        ranks=subject.desk.ranks,
        beside=beside or {},
        every=EVERY,
    ).open()


def recalled(
    subject: Subject, protocol: str, name: str, facts: Mapping[str, Any], make: Callable[[], float]
) -> float:
    """A number that was made before with the same facts, or a new one."""
    if not subject.resumable:
        return make()
    ranks, file = subject.desk.ranks, _folder(subject, protocol) / f"{name}.json"
    words = json.dumps({**_facts(subject), **facts}, sort_keys=True, default=str)
    found = ranks.from_main(_remembered(file, words) if ranks.main else None)
    if found is not None:
        return found
    made = make()
    if ranks.main:
        with suppress(OSError):  # it is only for speed
            file.parent.mkdir(parents=True, exist_ok=True)
            write_text(file, json.dumps({"facts": words, "number": made}))
    return made


def forget_(subject: Subject, protocol: str) -> None:
    """The result is kept, so how it came about need not be."""
    folder = _folder(subject, protocol)
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # others are under way, or there was none
        folder.parent.rmdir()


def digest_of(*tensors: Tensor) -> str:
    """sha256 of positions and labels."""
    told = sha256()
    for tensor in tensors:
        told.update(f"{tuple(tensor.shape)}{tensor.dtype}\n".encode())
        told.update(tensor.cpu().contiguous().numpy().data)
    return told.hexdigest()


def start_of(network: nn.Module) -> dict[str, str]:
    """The fact of a training that does not begin with random weights."""
    return {"weights": weights_digest(network)}


def _folder(subject: Subject, protocol: str) -> Path:
    return subject.run.evaluations / UNFINISHED / result_file(subject.run, protocol, subject.flags.name).stem


def _remembered(file: Path, words: str) -> float | None:
    with suppress(OSError, ValueError, LookupError, TypeError):
        content = json.loads(file.read_text())
        if content["facts"] == words:
            return float(content["number"])
    return None


def _facts(subject: Subject) -> dict[str, Any]:
    """What decides on every training: the run, its data and their views, and how the device computes."""
    desk = subject.desk
    return {
        "version": VERSION,
        "config": decisive(desk.config),
        "data": subject.facts["data_sha256"],
        "split": subject.facts["split_sha256"],
        "preprocessing": subject.facts["preprocessing"],
        "sweep": subject.flags.sweep,
        "device": desk.device.type,
        "bf16": uses_bf16(desk.config, desk.device),
    }
