"""ImageNetV2, ImageNet-C, ImageNet-R and ObjectNet with a linear classifier of ImageNet's classes.

Shapes: N images, Y classes of the classifier.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from torch import Tensor

from semppl.data.images import Prepare
from semppl.data.robustness import RobustnessSet
from semppl.data.wnids import imagenet_indices
from semppl.evaluate.exam import marked
from semppl.evaluate.linear import LinearFit
from semppl.evaluate.robustness import (
    corruption_means,
    mean_over_corruptions,
    right,
    right_among_objectnet,
    right_among_r,
    right_on_objectnet,
)
from semppl.protocols.frozen import linear_fit, linear_words
from semppl.protocols.results import Number, Outcome
from semppl.protocols.subject import Subject
from semppl.views.whole import framed_crop, ready_crop

Score = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Logits, ImageNet class of each output, labels → which answers are right."""

_SCORES: Final[Mapping[str, Mapping[str, Score]]] = {
    "imagenet-v2": {"": right},
    "imagenet-c": {"": right},
    "imagenet-r": {" (1000-way)": right, " (200-way)": right_among_r},
    "objectnet": {" (1000-way)": right_on_objectnet, " (125-way)": right_among_objectnet},
}


def robustness(subject: Subject) -> Outcome:
    """Nothing of these sets is seen before the classifier is fitted."""
    desk, flags = subject.desk, subject.flags
    index_Y = imagenet_indices(desk.dataset.classes)
    families = subject.families
    fit = linear_fit(subject, subject.labels)
    numbers, sizes = list[Number](), dict[str, dict[str, int]]()
    for found in families:
        for one in found:
            logits_NY = _logits(subject, fit, one)
            numbers += _numbers(one, logits_NY, index_Y)
            sizes[one.name] = {"images": len(one.images), "published": one.published}
    missing = [name for found in families for name in found.missing]
    for line in _warnings(sizes, missing, len(index_Y)):
        desk.say(line)
    return Outcome(
        protocol=f"robustness: {linear_words(fit)}, of {len(index_Y):,} classes; "
        f"{subject.labels.describe()}; top-1",
        numbers=_summed(numbers),
        settings={"strength": fit.strength, "seed_of_folds": flags.seed},
        details={"sets": sizes, "missing": missing, "all_numbers": [vars(number) for number in numbers]},
    )


def check_robustness(subject: Subject) -> object:
    """Refuse what cannot be measured, before anything is."""
    return imagenet_indices(subject.desk.dataset.classes), subject.families


def _prepare(one: RobustnessSet, size: int) -> tuple[Prepare | None, str]:
    """How images of a set are cut, and a name for it."""
    if one.crop_border:
        return partial(framed_crop, size, one.crop_border), f"without {one.crop_border} px of border"
    if one.kind == "imagenet-c":
        return partial(ready_crop, size), "ready"
    return None, ""


def _logits(subject: Subject, fit: LinearFit, one: RobustnessSet) -> Tensor:
    prepare, prepared = _prepare(one, subject.desk.size)
    encoder = subject.online.encoder
    features_NF = subject.desk.features(
        encoder,
        one.images,
        one.name,
        prepare=prepare,
        prepared=prepared,
        # 3.75 million images of ImageNet-C would fill 31 GB
        keep=one.kind != "imagenet-c",
    )
    return fit.logits(features_NF)


def _numbers(one: RobustnessSet, logits_NY: Tensor, index_Y: Tensor) -> list[Number]:
    numbers = []
    for way, score in _SCORES[one.kind].items():
        mark = marked(score(logits_NY, index_Y, one.labels_N))
        numbers.append(Number(f"{one.name}{way}", mark.accuracy, mark.low, mark.high))
    return numbers


def _summed(numbers: list[Number]) -> list[Number]:
    """The sets of ImageNet-C as means over severities, and all of them as one."""
    single = [number for number in numbers if not number.name.startswith("imagenet-c/")]
    means = corruption_means(
        {number.name: number.value for number in numbers if number.name.startswith("imagenet-c/")}
    )
    mean = mean_over_corruptions(means)
    if mean is not None:
        single.append(Number(f"imagenet-c, mean over {len(means)} corruptions", mean))
    return [*single, *(Number(f"imagenet-c/{name}", value) for name, value in means.items())]


def _warnings(sizes: Mapping[str, Mapping[str, Any]], missing: list[str], classes: int) -> list[str]:
    """What makes a number differ from published ones."""
    lines = [
        f"{name}: {size['images']:,} of the {size['published']:,} images as published"
        for name, size in sizes.items()
        if size["images"] != size["published"]
    ]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        lines.append(f"not found: {', '.join(missing[:3])}{more}")
    if classes < 1000:
        lines.append(
            f"the classifier knows {classes} of ImageNet's 1,000 classes: images of others count wrong"
        )
    return lines
