"""The queue Q of labelled embeddings (paper, section 2).

Shapes: V large views, C capacity, D dims, M pushed rows.
"""

from typing import Literal, final

import torch
from torch import Tensor
from torch.nn import functional as F

from semppl.core.labels import UNLABELLED


@final
class LabelledQueue:
    """V first-in-first-out queues of (target projection, label), one for each large view, in lockstep.

    All views of an image are pushed together, so slot c of every queue belongs to the same image and one
    label array serves all of them. Rows are kept as given: the method pushes unit vectors.

    `initial_labels` says what the queue holds before anything was pushed: "random" unit vectors with
    uniformly random classes, used from the first step as in the paper, or "none": nothing that can be
    found or drawn. With `keep_predictions` each slot also keeps the detached online prediction of its image.

    Nothing here waits for the device: rows without a label are written to a spare slot beyond the capacity.
    """

    def __init__(
        self,
        views: int,
        capacity: int,
        dim: int,
        classes: int,
        *,
        initial_labels: Literal["random", "none"] = "random",
        keep_predictions: bool = False,
        seed: int = 0,
        device: torch.device | str | None = None,
    ) -> None:
        for name, value in (("views", views), ("capacity", capacity), ("dim", dim), ("classes", classes)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if initial_labels not in ("random", "none"):
            raise ValueError(f"initial_labels must be 'random' or 'none', not {initial_labels!r}")
        self.views, self.capacity, self.dim, self.classes = views, capacity, dim, classes
        embeddings = torch.zeros(views, capacity + 1, dim)
        labels = torch.full((capacity + 1,), UNLABELLED)
        if initial_labels == "random":
            rng = torch.Generator().manual_seed(seed)
            embeddings[:, :capacity] = F.normalize(torch.randn(views, capacity, dim, generator=rng), dim=-1)
            labels[:capacity] = torch.randint(classes, (capacity,), generator=rng)
        self._embeddings = embeddings.to(device)
        self._labels = labels.to(device)
        self._predictions = self._embeddings.clone() if keep_predictions else None
        self._cursor = torch.zeros((), dtype=torch.long, device=device)

    @property
    def embeddings_VCD(self) -> Tensor:
        """Target projections."""
        return self._embeddings[:, : self.capacity]

    @property
    def labels_C(self) -> Tensor:
        """Their labels; UNLABELLED where a slot holds nothing valid."""
        return self._labels[: self.capacity]

    @property
    def predictions_VCD(self) -> Tensor | None:
        """Online predictions of the same images, where they are kept."""
        return None if self._predictions is None else self._predictions[:, : self.capacity]

    def __len__(self) -> int:
        return int((self.labels_C != UNLABELLED).sum())

    @torch.no_grad()
    def push_(self, embeddings_VMD: Tensor, labels_M: Tensor, predictions_VMD: Tensor | None = None) -> None:
        """Append the rows that have a label; the newest C stay, whatever the size of the push."""
        if embeddings_VMD.shape != (self.views, len(labels_M), self.dim):
            raise ValueError(
                f"expected embeddings of shape {(self.views, len(labels_M), self.dim)}, "
                f"not {tuple(embeddings_VMD.shape)}"
            )
        if labels_M.device.type == "cpu":  # asking a GPU would stall it
            odd = labels_M[(labels_M < UNLABELLED) | (labels_M >= self.classes)]
            if len(odd):
                raise ValueError(f"label {int(odd[0])} in a queue of {self.classes} classes")
        if self._predictions is not None and (
            predictions_VMD is None or predictions_VMD.shape != embeddings_VMD.shape
        ):
            raise ValueError("a queue with keep_predictions=True needs a prediction for each embedding")
        valid_M = labels_M != UNLABELLED
        nth_M = valid_M.cumsum(0)
        kept_M = valid_M & (nth_M > nth_M[-1:] - self.capacity)
        slots_M = ((self._cursor + nth_M - 1) % self.capacity).where(kept_M, self.capacity)
        self._embeddings[:, slots_M] = embeddings_VMD.to(self._embeddings)
        self._labels[slots_M] = labels_M.to(self._labels)
        if self._predictions is not None and predictions_VMD is not None:
            self._predictions[:, slots_M] = predictions_VMD.to(self._predictions)
        self._labels[self.capacity :].fill_(UNLABELLED)
        # in place, as everything here: a recorded step finds its queue where it was
        self._cursor.add_(valid_M.sum()).remainder_(self.capacity)

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that a resumed run needs."""
        state = {
            "embeddings_VCD": self.embeddings_VCD.clone(),
            "labels_C": self.labels_C.clone(),
            "cursor": self._cursor.clone(),
        }
        if self.predictions_VCD is not None:
            state["predictions_VCD"] = self.predictions_VCD.clone()
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore the content; another shape is refused."""
        mine = self.state_dict()
        if mine.keys() != state.keys():
            raise ValueError(f"queue state has {sorted(state)}, expected {sorted(mine)}")
        for name, tensor in state.items():
            if tensor.shape != mine[name].shape:
                raise ValueError(
                    f"queue {name} has shape {tuple(tensor.shape)}, expected {tuple(mine[name].shape)}"
                )
        self._embeddings[:, : self.capacity] = state["embeddings_VCD"].to(self._embeddings)
        self._labels[: self.capacity] = state["labels_C"].to(self._labels)
        self._cursor.copy_(state["cursor"])
        if self._predictions is not None:
            self._predictions[:, : self.capacity] = state["predictions_VCD"].to(self._predictions)
