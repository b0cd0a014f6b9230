"""k-NN and linear accuracy of an encoder on test images, the same protocol for all. Shapes: N images."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from semppl.data.dataset import Dataset
from semppl.evaluate.features import extract_features
from semppl.evaluate.knn import accuracy, knn_predict
from semppl.evaluate.linear import linear_predict

NEIGHBOURS = 5


@dataclass(frozen=True)
class Score:
    """Accuracy on the test images, in per cent."""

    knn: float
    linear: float


@final
class Judge:
    """Scores encoders with the labels that training had, on the test images of a data set."""

    def __init__(self, dataset: Dataset, size: int, device: torch.device) -> None:
        if not isinstance(dataset.images, Tensor) or not isinstance(dataset.test_images, Tensor):
            raise TypeError(f"{dataset.name}: this judge needs images and test images in memory")
        if dataset.test_labels_T is None:
            raise ValueError(f"{dataset.name} has no labels of test images")
        self.size, self.classes = size, len(dataset.classes)
        self.test_images_T3HW, self.test_labels_T = dataset.test_images, dataset.test_labels_T
        mean_3, std_3 = dataset.statistics()
        self.mean_3, self.std_3 = mean_3.to(device), std_3.to(device)
        self.images_L3HW = dataset.images[dataset.labelled_L]
        self.labels_L = dataset.labels_M[dataset.labelled_L]

    @property
    def protocol(self) -> str:
        """In words, for beside each number."""
        return (
            f"{len(self.test_labels_T)} test images; {len(self.labels_L)} labels; "
            f"k-NN: cosine, k={NEIGHBOURS}, T=0.1; linear: l2 logistic regression on frozen features, "
            f"penalty by cross-validation inside the {len(self.labels_L)} labels"
        )

    def features(self, encoder: nn.Module | None, images_N3HW: Tensor) -> Tensor:
        """Of an encoder, or the pixels themselves."""
        if encoder is None:
            return images_N3HW.flatten(1).float()
        return extract_features(encoder, images_N3HW, size=self.size, mean_3=self.mean_3, std_3=self.std_3)

    def score(self, encoder: nn.Module | None) -> Score:
        """Both accuracies."""
        test, labelled = (
            self.features(encoder, self.test_images_T3HW),
            self.features(encoder, self.images_L3HW),
        )
        knn_T = knn_predict(test, labelled, self.labels_L, k=NEIGHBOURS, classes=self.classes)
        linear_T = linear_predict(test, labelled, self.labels_L)
        return Score(100 * accuracy(knn_T, self.test_labels_T), 100 * accuracy(linear_T, self.test_labels_T))

    @torch.no_grad()
    def head_accuracy(self, encoder: nn.Module, head: nn.Linear) -> float:
        """Of a network with a classifier of its own, in per cent."""
        logits = head.cpu()(self.features(encoder, self.test_images_T3HW))
        return 100 * accuracy(logits.argmax(1), self.test_labels_T)
