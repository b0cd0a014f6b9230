"""The verb `semppl masks`: a mask for each image, a sheet to look at, and scores where the truth is known."""

import json
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from rich.console import Console

from semppl.core.cores import usable_cores
from semppl.core.counted import counted
from semppl.core.errors import RunError, UserError
from semppl.core.lock import locked
from semppl.core.rundir import write_atomically, write_text
from semppl.data.dataset import evenly
from semppl.data.masks import default_place, read_mask
from semppl.data.scan import Bad, bad_table
from semppl.saliency.items import Items, items_of
from semppl.saliency.learning import learnt_refiner, refined_maps, refined_outcomes
from semppl.saliency.looking import Refine, look_at, with_refined
from semppl.saliency.making import THRESHOLD, mask_part, one_thread
from semppl.saliency.masking import Make, Masking
from semppl.saliency.place import Place, clear_, require_ours, require_same
from semppl.saliency.reading import LONGEST
from semppl.saliency.refiner import Refiner
from semppl.saliency.scoring import COLUMNS, plain, rows, score, truths
from semppl.saliency.settings import MasksFlags, require_sensible
from semppl.saliency.sheet import drawn, row_of
from semppl.saliency.sources import SOURCES
from semppl.saliency.team import Team, team
from semppl.train.device import choose_device, describe_device
from semppl.train.progress import StageProgress, Stages, print_table
from semppl.views.masking import Saliency

# images that a process estimates, or reads for the network, before it reports
_ESTIMATED: Final = 4
_READ: Final = 32
# below this many images starting processes takes longer than they save
_FEW: Final = 8
_QUALITY: Final = 90
ENOUGH_TO_LEARN: Final = 100
"""Images; a network that has seen fewer says less than the estimates do."""


@dataclass(frozen=True)
class _Job:
    """What all stages know."""

    source: str
    items: Items
    place: Place
    flags: MasksFlags
    device: torch.device
    crew: Team
    console: Console
    settings: dict[str, Any]

    def say(self, words: str) -> None:
        self.console.print(words, highlight=False, soft_wrap=True)


def run_masks(source: str, flags: MasksFlags, console: Console) -> None:
    """Make what is missing, then look at it and score it."""
    require_sensible(flags)
    device = choose_device(flags.device)
    place = Place(flags.out or default_place(source, flags.root))
    items = items_of(source, flags.root)
    if flags.truth is not None:
        truths(items, flags.truth)  # a wrong folder is said now, and not after all masks
    workers = usable_cores() if flags.workers is None else flags.workers
    with locked(place.path), _writing(place):
        require_ours(place)
        settings = _settings(place, flags, device, len(items))
        if flags.overwrite:
            clear_(place)
        else:
            require_same(place, settings)
        if flags.overwrite or place.record() is None:
            place.write_record(
                settings, data=source, network=_network(flags) if settings["refined"] else None
            )
        processes = workers if len(items) >= _FEW else 0
        with team(processes, begin=one_thread, goes_on="the same command goes on") as crew:
            job = _Job(source, items, place, flags, device, crew, console, settings)
            refiner = _refiner(job) if settings["refined"] else None
            _make(job, refiner)
            refine = None if refiner is None else partial(refined_maps, refiner)
            side = None if refiner is None else refiner.size
            _draw_sheet(job, refine, side)
            _score(job, refine, side)
    _say_how_to_use(job)


def _settings(place: Place, flags: MasksFlags, device: torch.device, num_images: int) -> dict[str, Any]:
    """What all masks in a place have in common."""
    learns = device.type == "cuda" and num_images >= ENOUGH_TO_LEARN
    refined = flags.refine == "on" or (flags.refine == "auto" and learns)
    if flags.refine == "auto" and not flags.overwrite and (said := place.record()) is not None:
        refined = bool(said["settings"].get("refined"))
    return {"sources": list(SOURCES), "refined": refined, "threshold": THRESHOLD, "long_side": LONGEST}


def _network(flags: MasksFlags) -> dict[str, int]:
    """What decides how a network learns."""
    return {"train_images": flags.train_images, "seed": flags.seed}


@contextmanager
def _writing(place: Place) -> Iterator[None]:
    """A disk that is full or may not be written to is told in one line."""
    try:
        yield
    except BrokenPipeError:  # the reader of what we say left
        raise
    except OSError as error:
        raise RunError(
            f"cannot write to {place.path} ({error.strerror or error}): what is done is kept: "
            "make room, and the same command goes on"
        ) from error


def _refiner(job: _Job) -> Refiner:
    if not job.place.refiner.is_file():
        many = min(len(job.items), job.flags.train_images)
        job.say(f"a network learns from {many:,} images on {describe_device(job.device)}")
    elif (learnt := (job.place.record() or {}).get("network")) not in (None, _network(job.flags)):
        how = ", ".join(f"--{name.replace('_', '-')} {value}" for name, value in learnt.items())
        job.say(f"the network that is there already ({how}) makes the masks: --overwrite trains another")
    with Stages(job.console, least=1) as stages:

        def advance(title: str, done: int, total: int) -> None:
            stages.advance(title, done, total)
            job.crew.check()

        return learnt_refiner(
            job.items,
            job.place,
            job.crew,
            most=job.flags.train_images,
            device=job.device,
            seed=job.flags.seed,
            advance=advance,
        )


def _make(job: _Job, refiner: Refiner | None) -> None:
    make: Make = partial(job.crew.over, mask_part)
    if refiner is not None:
        make = partial(refined_outcomes, refiner, job.crew)
    part = _ESTIMATED if refiner is None else _READ
    masking = Masking(job.items, job.place, make, part=part)
    for note in job.items.notes:
        job.say(note)
    began = time.monotonic()
    try:
        with StageProgress(job.console, "masks", len(job.items)) as bar:
            masking.run_(bar.advance, job.crew.check)
    finally:
        _name_bad(job, masking.bad)
    seconds = time.monotonic() - began
    _tell_of(job, masking, seconds)


def _name_bad(job: _Job, bad: list[Bad]) -> None:
    if not bad:
        job.place.bad.unlink(missing_ok=True)
        return
    write_text(job.place.bad, bad_table(bad))
    named = ", ".join(f"{each.path} ({each.reason})" for each in bad[:3])
    more = ", …" if len(bad) > 3 else ""
    images = counted(len(job.items), "image")
    job.say(f"no mask for {len(bad):,} of {images}: {named}{more}: see {job.place.bad}")
    if len(bad) == len(job.items):
        raise UserError(f"{job.source}: no image could be read: see {job.place.bad}")


def _tell_of(job: _Job, masking: Masking, seconds: float) -> None:
    """What there is now, on the console and in masks.json."""
    rows_M = [row for mask in job.items.masks() if (row := masking.index.rows.get(mask)) is not None]
    shares_M = np.array([row.foreground for row in rows_M])
    least = Saliency().min_foreground
    enough = int((shares_M >= least).sum())
    job.place.write_record(
        job.settings,
        data=job.source,
        images=len(job.items),
        masks=len(rows_M),
        foreground_mean=round(float(shares_M.mean()), 4),
        enough_foreground=enough,
        unreadable=len(masking.bad),
        network=(job.place.record() or {}).get("network"),
    )
    rate = f" in {seconds:.0f} s, {masking.made / seconds:.1f} images/s" if masking.made else ""
    parts = [f"{masking.made:,} made{rate}"]
    parts += [f"{masking.kept:,} were there"] if masking.kept else []
    parts += [f"{masking.moved:,} taken from equal images"] if masking.moved else []
    job.say(f"{counted(len(rows_M), 'mask')} in {job.place.path}: {'; '.join(parts)}")
    job.say(
        f"foreground: {100 * shares_M.mean():.0f} % of an image on average; {enough:,} of {len(rows_M):,} "
        f"have at least {100 * least:.0f} %, the others are never masked"
    )


def _draw_sheet(job: _Job, refine: Refine | None, side: int | None) -> None:
    if not job.flags.sheet:
        return
    made = [number for number, mask in enumerate(job.items.masks()) if (job.place.masks / mask).is_file()]
    numbers = evenly(torch.tensor(made), job.flags.sheet).tolist()
    look = partial(look_at, side=side, baselines=False)
    tiles = [
        row_of(with_refined(found, refine), read_mask(str(job.place.masks / found.item.mask)), number)
        for number, found in enumerate(job.crew.over(look, (job.items[number] for number in numbers)))
        if found is not None
    ]
    job.crew.check()
    if tiles:
        write_atomically(job.place.sheet, partial(drawn(tiles).save, format="JPEG", quality=_QUALITY))


def _score(job: _Job, refine: Refine | None, side: int | None) -> None:
    if job.flags.truth is None:
        return
    with StageProgress(job.console, "scores", len(job.items)) as bar:
        scores, notes = score(job.items, job.flags.truth, job.crew, refine, side, bar.advance)
    write_text(job.place.scores, json.dumps(plain(scores), indent=2) + "\n")
    count = next(iter(scores.values())).images
    print_table(job.console, f"{counted(count, 'image')} against {job.flags.truth}", COLUMNS, rows(scores))
    for note in notes:
        job.say(note)


def _say_how_to_use(job: _Job) -> None:
    if job.place.sheet.is_file():
        job.say(f"look at {job.place.sheet}")
    usual = job.place.path.absolute() == default_place(job.source, job.flags.root).absolute()
    usual = usual and not job.items.own_masks
    given = "" if job.flags.root is None else f" --root {shlex.quote(job.flags.root)}"
    given += "" if usual else f" --masks {shlex.quote(str(job.place.path))}"
    by = "by default" if usual else "when it is told"
    job.say(
        f"training uses them {by}: semppl fit {shlex.quote(job.source)}{given} …; "
        "--saliency.probability 0 turns them off"
    )
