"""How robust a run is on its own test images: a linear classifier on 15 corruptions at 5 severities.

Shapes: N images, B of a batch, s side of a view.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Final, final

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from semppl.core.corruptions import CORRUPTIONS, SEVERITIES
from semppl.core.rng import stream
from semppl.corruptions.corrupt import corrupt
from semppl.corruptions.sheet import corruption_sheet
from semppl.data.dataset import evenly
from semppl.data.images import Prepare, gather
from semppl.evaluate.exam import marked
from semppl.evaluate.features import encoded
from semppl.evaluate.linear import LinearFit
from semppl.protocols.frozen import linear_fit, linear_words
from semppl.protocols.results import Number, Outcome, result_file
from semppl.protocols.subject import Subject
from semppl.train.progress import StageProgress
from semppl.views.whole import whole_view

_KINDS: Final = tuple((name, severity) for name in CORRUPTIONS for severity in SEVERITIES)


def _in_bytes(prepare: Prepare, image_3HW: Tensor) -> Tensor:
    """Corruptions are made of bytes; some ways to resize give floats."""
    return prepare(image_3HW).round().to(torch.uint8)


def corruptions(subject: Subject) -> Outcome:
    """Images are corrupted as they are seen: cut to the size of a view first, as in ImageNet-C."""
    desk, task, flags = subject.desk, subject.task, subject.flags
    index_N = evenly(torch.arange(len(task.exam)), flags.most)
    truth_N = task.truth_N[index_N]
    fit = linear_fit(subject, task.labels)
    problems = set[str]()
    crops_N3ss = gather(
        task.exam.images[index_N],
        partial(_in_bytes, desk.preprocessing.prepare),
        workers=desk.workers,
        problems=problems,
    )
    desk.regret(problems)
    answers = _answers(subject, fit, crops_N3ss, flags.seed)
    clean = marked(answers[0] == truth_N)
    table = {name: list[float]() for name in CORRUPTIONS}
    for (name, _), answer_N in zip(_KINDS, answers[1:], strict=True):
        table[name].append(marked(answer_N == truth_N).accuracy)
    _draw(crops_N3ss[0], result_file(subject.run, "corruptions", flags.name).with_suffix(".png"))
    means = {name: fmean(five) for name, five in table.items()}
    return Outcome(
        protocol=f"corruptions: {linear_words(fit)}; {task.describe()}, {len(index_N):,} of them corrupted "
        "by us, not ImageNet-C's files; top-1, each corruption as the mean over 5 severities",
        numbers=[
            Number("clean", clean.accuracy, clean.low, clean.high),
            Number("mean over 15 corruptions", fmean(means.values())),
            *(Number(name, value) for name, value in means.items()),
        ],
        settings={"strength": fit.strength, "images": len(index_N), "seed": flags.seed},
        details={"by_severity": table},
    )


def _answers(subject: Subject, fit: LinearFit, crops_N3ss: Tensor, seed: int) -> list[Tensor]:
    """Labels of the clean images and of each kind of corruption."""
    desk, total = subject.desk, (1 + len(_KINDS)) * len(crops_N3ss)
    mean_3, std_3 = desk.statistics

    def views() -> Iterator[Tensor]:
        images = _Corrupted(crops_N3ss, seed)
        for part in DataLoader(images, batch_size=256, num_workers=desk.workers):
            yield whole_view(part, mean_3, std_3)

    parts, done = list[Tensor](), 0
    with StageProgress(desk.console, "corrupted images", total) as progress:
        for features_BF in encoded(subject.online.encoder, views(), desk.precision):
            parts.append(fit.logits(features_BF).argmax(1))
            done += len(features_BF)
            progress.advance(done)
    return list(torch.cat(parts).split(len(crops_N3ss)))


@final
class _Corrupted(Dataset[Tensor]):
    """All images clean, then all images with each kind of corruption; made by workers."""

    def __init__(self, crops_N3ss: Tensor, seed: int) -> None:
        self._crops, self._seed = crops_N3ss, seed

    def __len__(self) -> int:
        return (1 + len(_KINDS)) * len(self._crops)

    def __getitem__(self, place: int) -> Tensor:
        kind, image = divmod(place, len(self._crops))
        if not kind:
            return self._crops[image]
        name, severity = _KINDS[kind - 1]
        return corrupt(self._crops[image], name, severity, seed=stream(self._seed, "image", image))


def _draw(image_3ss: Tensor, file: Path) -> None:
    """What the corruptions look like on the first image."""
    file.parent.mkdir(exist_ok=True)
    corruption_sheet(image_3ss).save(file)
