"""Which answers are right on the robustness sets.

Shapes: N images, Y classes of the classifier. `index_Y` is the ImageNet class of each of its outputs: it may
know only some of the 1,000, and images of classes that it does not know count as wrong.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

import torch
from torch import Tensor

from semppl.core.corruptions import SEVERITIES
from semppl.core.errors import UserError
from semppl.core.labels import UNLABELLED
from semppl.data.objectnet import objectnet_class_of
from semppl.data.wnids import imagenet_r_indices


def right(logits_NY: Tensor, index_Y: Tensor, labels_N: Tensor) -> Tensor:
    """bool [N]: whether the largest output of all is the label's: the paper's way, on ImageNet-R too."""
    return _answer(logits_NY, index_Y) == labels_N.to(logits_NY.device)


def right_among_r(logits_NY: Tensor, index_Y: Tensor, labels_N: Tensor) -> Tensor:
    """The same over ImageNet-R's 200 classes alone, as its authors score; higher than the paper's numbers."""
    return right(_masked(logits_NY, index_Y, imagenet_r_indices(), "ImageNet-R"), index_Y, labels_N)


def right_on_objectnet(logits_NY: Tensor, index_Y: Tensor, labels_N: Tensor) -> Tensor:
    """bool [N]: whether the largest output over all classes stands for the ObjectNet class of the image.

    An answer that stands for none of ObjectNet's classes is wrong.
    """
    class_1000 = objectnet_class_of().to(logits_NY.device)
    return class_1000[_answer(logits_NY, index_Y)] == labels_N.to(logits_NY.device)


def right_among_objectnet(logits_NY: Tensor, index_Y: Tensor, labels_N: Tensor) -> Tensor:
    """The same over the 125 ImageNet classes that ObjectNet has; higher than the paper's numbers."""
    shown = (objectnet_class_of() != UNLABELLED).nonzero().squeeze(1).tolist()
    return right_on_objectnet(_masked(logits_NY, index_Y, shown, "ObjectNet"), index_Y, labels_N)


def corruption_means(accuracies: Mapping[str, float]) -> dict[str, float]:
    """Corruption → mean over its five severities, from accuracies by name, such as imagenet-c/fog/3.

    A corruption of which a severity is missing has no mean: the others alone would flatter it or be unfair.
    """
    corruptions = dict.fromkeys(name.split("/")[1] for name in accuracies)
    names = {one: [f"imagenet-c/{one}/{severity}" for severity in SEVERITIES] for one in corruptions}
    return {
        one: fmean(accuracies[name] for name in five)
        for one, five in names.items()
        if all(name in accuracies for name in five)
    }


def mean_over_corruptions(means: Mapping[str, float]) -> float | None:
    """Every corruption counts the same, not relative to AlexNet's errors; None where there is no mean."""
    return fmean(means.values()) if means else None


def _answer(logits_NY: Tensor, index_Y: Tensor) -> Tensor:
    return index_Y.to(logits_NY.device)[logits_NY.argmax(1)]


def _masked(logits_NY: Tensor, index_Y: Tensor, shown: Sequence[int], what: str) -> Tensor:
    hidden_Y = ~torch.isin(index_Y, torch.tensor(shown, device=index_Y.device))
    if hidden_Y.all():
        raise UserError(f"the classifier knows none of the classes of {what}: there is nothing to score")
    return logits_NY.masked_fill(hidden_Y.to(logits_NY.device), -torch.inf)
