"""The same picture under two names: found by content, so that no label is counted or tested twice.

Shapes: M images, T test images, G = M + T files.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semppl.core.counted import counted
from semppl.core.errors import UserError
from semppl.core.labels import UNLABELLED
from semppl.data.dataset import Dataset
from semppl.data.images import ImageFiles

Groups = Sequence[Sequence[int]]
_MOST_BYTES: Final = 2**33


def without_duplicates(dataset: Dataset) -> Dataset:
    """Of equal files with a label one keeps it; equal files with different labels keep none.

    Test images that are also among the training images are left out of the test. Arrays are taken as they
    are, and so are files where looking would mean to read more than 8 GiB.
    """
    images, tests = dataset.images, dataset.test_images
    if not isinstance(images, ImageFiles) or dataset.file_bytes_M is None:
        return dataset
    num_images, bytes_G = len(images), dataset.file_bytes_M
    if isinstance(tests, ImageFiles) and dataset.test_bytes_T is not None:
        bytes_G = torch.cat([bytes_G, dataset.test_bytes_T])

    def path_of(index: int) -> str:
        if index < num_images or not isinstance(tests, ImageFiles):
            return images.path(index)
        return tests.path(index - num_images)

    wanted_G = torch.ones(len(bytes_G), dtype=torch.bool)
    wanted_G[:num_images] = dataset.labels_M != UNLABELLED
    if int(bytes_G[candidates(bytes_G.numpy(), wanted_G.numpy())].sum()) > _MOST_BYTES:
        note = "equal images were not looked for: more than 8 GiB would have to be read"
        return replace(dataset, notes=(*dataset.notes, note))
    groups = duplicate_groups(path_of, bytes_G.numpy(), wanted_G.numpy())
    labels_M, notes = _one_label_each(dataset, groups)
    copies = torch.tensor([i for group in groups for i in group if i < num_images], dtype=torch.long)
    dataset = replace(
        dataset,
        labels_M=labels_M,
        # an image that equals a labelled one would be an easy question
        hidden=None if dataset.hidden is None else dataset.hidden.without(copies),
        notes=(*dataset.notes, *notes),
    )
    seen = [i - num_images for group in groups if group[0] < num_images for i in group if i >= num_images]
    return _without_tests(dataset, seen) if seen else dataset


def duplicate_groups(
    path_of: Callable[[int], str], bytes_G: NDArray[np.int64], wanted_G: NDArray[np.bool_]
) -> list[list[int]]:
    """Groups of files with equal bytes among which at least one is wanted, each in rising order.

    Only files as long as a wanted one are read, so among photographs this costs little.
    """
    groups: dict[bytes, list[int]] = defaultdict(list)
    for index in candidates(bytes_G, wanted_G).tolist():
        content = _content(path_of(index))
        if content is not None:
            groups[content].append(index)
    return [group for group in groups.values() if len(group) > 1 and wanted_G[group].any()]


def candidates(bytes_G: NDArray[np.int64], wanted_G: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Files that are as long as a wanted one and as another one."""
    index = np.flatnonzero(np.isin(bytes_G, np.unique(bytes_G[wanted_G])))
    lengths, counts = np.unique(bytes_G[index], return_counts=True)
    return index[np.isin(bytes_G[index], lengths[counts > 1])]


def _content(path: str) -> bytes | None:
    """A file that has gone meanwhile equals nothing."""
    try:
        return blake2b(Path(path).read_bytes(), digest_size=16).digest()
    except OSError:
        return None


def _one_label_each(dataset: Dataset, groups: Groups) -> tuple[Tensor, list[str]]:
    labels_M, classes, notes, twice = dataset.labels_M.clone(), dataset.classes, [], 0
    for group in groups:
        labelled = [i for i in group if i < len(labels_M) and labels_M[i] != UNLABELLED]
        names = {classes[labels_M[i]]: dataset.names[i] for i in reversed(labelled)}
        if len(names) > 1:
            listed = " and ".join(f"{path} ({name})" for name, path in sorted(names.items()))
            notes.append(f"equal images with different labels, so neither is used: {listed}")
            labels_M[labelled] = UNLABELLED
        elif len(labelled) > 1:
            twice += len(labelled) - 1
            labels_M[labelled[1:]] = UNLABELLED
    if twice:
        equal = counted(twice, "labelled image equals", "labelled images equal")
        notes.append(f"{equal} another one with the same label: counted once")
    return labels_M, notes


def _without_tests(dataset: Dataset, seen: list[int]) -> Dataset:
    tests, labels_T, names = dataset.test_images, dataset.test_labels_T, dataset.test_names
    if not isinstance(tests, ImageFiles) or labels_T is None or names is None:
        return dataset
    kept_T = torch.ones(len(labels_T), dtype=torch.bool)
    kept_T[seen] = False
    index_T = kept_T.nonzero().squeeze(1)
    if not len(index_T):
        raise UserError("all test images are also among the training images: give others with --test")
    again = counted(len(seen), "test image is", "test images are")
    note = f"{again} also among the training images: left out of the test"
    sides, sizes = dataset.test_sides_T2, dataset.test_bytes_T
    return replace(
        dataset,
        test_images=tests[index_T],
        test_labels_T=labels_T[index_T],
        test_names=[names[i] for i in index_T.tolist()],
        test_sides_T2=None if sides is None else sides[index_T],
        test_bytes_T=None if sizes is None else sizes[index_T],
        notes=(*dataset.notes, note),
    )
