"""What a run leaves behind for looking: thumbnails, a map of features, and where its pseudo-labels come from.

A page is made of it without the images and without torch. Withheld truth is not in it: only whether a vote
was right. In exhibit.json:

- tiles, images: tile t of the sheets shows image t: its name, given label (−1: none) and role;
- sample: images spread evenly over training, each with its vote (−1: none), the winner's ballots, whether it
  was tied and right (1, 0, null), and its place on the first two principal components, which explain so much
  of the variance; features.npz has more components;
- gallery: of some images of the sample each ballot, its voters as [tile, cosine], and the positives drawn for
  the first views. Tile −1 is an entry of the queue that is no image.

Shapes: N sampled images, T tiles, F features, P principal components, G entries of the gallery, A attributes.
"""

import json
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from semppl.config import Config, required
from semppl.core.labels import UNLABELLED
from semppl.core.rundir import RunDirectory, write_atomically, write_text
from semppl.data.dataset import Dataset, evenly
from semppl.data.images import batches
from semppl.nets.heads import unit
from semppl.train.build import Training
from semppl.train.device import choose_workers
from semppl.train.gallery import NO_SLOT, Seen, at_rest, images_in, judged, see
from semppl.train.provenance import NO_IMAGE
from semppl.train.tiles import write_tiles
from semppl.views.whole import whole_crop, whole_view

FOLDER, EXHIBIT, FEATURES = "exhibit", "exhibit.json", "features.npz"
VERSION: Final = 1
_SAMPLE: Final = 2000
_GALLERY: Final = 200
_COMPONENTS: Final = 32
# a value that is not shown yet counts for more than any that is; there may be more classes than entries, so
# votes and right or wrong go first
_NEW_TO_SHOW: Final = (10.0, 20.0, 20.0)


def write_exhibit(run: RunDirectory, training: Training, config: Config, dataset: Dataset) -> None:
    """RUN/exhibit/; exhibit.json comes last and goes first, so where it is, all else is there and fits."""
    folder = run.path / FOLDER
    folder.mkdir(exist_ok=True)
    (folder / EXHIBIT).unlink(missing_ok=True)
    for rest in folder.glob(".*.tmp"):  # of a process that was killed
        rest.unlink(missing_ok=True)
    sample_N = evenly(torch.arange(len(dataset.labels_M)), _SAMPLE)
    features_NP, explained_P = principal(_features(training, config, dataset, sample_N), _COMPONENTS)
    seen = None if training.state.queue is None else see(training, config, dataset, sample_N)
    chosen, images_C = list[int](), torch.empty(0, dtype=torch.long)
    if seen is not None:
        chosen, images_C = _chosen(dataset, sample_N, seen), images_in(training, config, dataset)
    shown = _shown(sample_N, seen, chosen, images_C)
    tile = {image: t for t, image in enumerate(shown)} | {NO_IMAGE: NO_IMAGE}
    content = {
        "version": VERSION,
        "step": training.state.step,
        "epoch": training.state.step * config.images_per_step / len(dataset.labels_M),
        "classes": list(dataset.classes),
        "ballots": config.num_ballots,
        "minimum_votes": config.method.minimum_votes,
        "k": config.method.k,
        "tiles": write_tiles(
            folder,
            "tiles",
            dataset.images[torch.tensor(shown)],
            workers=choose_workers(config, training.device),
        ),
        "images": _images(dataset, shown),
        "sample": _sample(dataset, sample_N, seen, features_NP),
        "explained": [round(share, 6) for share in explained_P[:2].tolist()],
        "gallery": [] if seen is None else [_entry(n, seen, images_C, tile) for n in chosen],
    }
    stored = features_NP.numpy().astype(np.float16)
    write_atomically(folder / FEATURES, partial(np.savez_compressed, features_NP=stored))
    write_text(folder / EXHIBIT, json.dumps(content, allow_nan=False) + "\n")


def _features(training: Training, config: Config, dataset: Dataset, index_N: Tensor) -> Tensor:
    """Unit features of whole images."""
    plan, encoder, parts = training.plan, training.state.online.encoder, list[Tensor]()
    crops = batches(
        dataset.images[index_N],
        partial(whole_crop, required(config.views.large_size)),
        workers=choose_workers(config, training.device),
    )
    with at_rest(encoder), torch.no_grad():
        for crops_B3ss in crops:
            with plan.autocast():
                parts.append(encoder(whole_view(crops_B3ss, plan.mean_3, plan.std_3)).float().cpu())
    return unit(torch.cat(parts).nan_to_num())


def principal(features_NF: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Coordinates [N, P] along the directions of largest variance, and each one's share of it [P].

    At least two, which may be empty. A direction has two signs: of each the farthest image is on the positive
    side, so that two looks at the same features are alike.
    """
    x_NF = features_NF.double() - features_NF.double().mean(0)
    wide = x_NF.shape[0] < x_NF.shape[1]
    # of the smaller of the two Gram matrices; ascending
    values_S, vectors_SS = torch.linalg.eigh(x_NF @ x_NF.T if wide else x_NF.T @ x_NF)
    values_S, vectors_SS = values_S.flip(0).clamp(min=0), vectors_SS.flip(1)
    places_NP = (vectors_SS * values_S.sqrt() if wide else x_NF @ vectors_SS)[:, :most]
    farthest_1P = places_NP.abs().argmax(0, keepdim=True)
    places_NP = places_NP * places_NP.gather(0, farthest_1P).sign()
    shares_P = values_S[:most] / values_S.sum().clamp(min=1e-12)
    missing = max(2 - places_NP.shape[1], 0)
    return F.pad(places_NP, (0, missing)), F.pad(shares_P, (0, missing))


def varied(values_NA: Tensor, weights: Sequence[float], most: int) -> list[int]:
    """At most `most` rows, chosen one by one so that each attribute shows its values, rare ones included.

    Next is the row with the most that is new or little shown, of equals the first; `weights` say how much a
    new value counts for.
    """
    codes_A = [column.unique(return_inverse=True)[1] for column in values_NA.unbind(1)]
    counts_A = [torch.zeros(int(code_N.max()) + 1) for code_N in codes_A]
    free_N, chosen = torch.zeros(len(values_NA)), list[int]()
    for _ in range(min(most, len(values_NA))):
        score_N = free_N.clone()
        for weight, code_N, count in zip(weights, codes_A, counts_A, strict=True):
            score_N += (1 / (1 + count)).where(count > 0, weight)[code_N]
        chosen.append(int(score_N.argmax()))
        free_N[chosen[-1]] = -torch.inf
        for code_N, count in zip(codes_A, counts_A, strict=True):
            count[code_N[chosen[-1]]] += 1
    return sorted(chosen)


def _chosen(dataset: Dataset, sample_N: Tensor, seen: Seen) -> list[int]:
    """Places in the sample: of images without a label, whose label a vote decides, or of all."""
    given_N = dataset.labels_M[sample_N]
    free_N = (given_N == UNLABELLED).nonzero().squeeze(1)
    asked_N = free_N if len(free_N) else torch.arange(len(sample_N))
    right = torch.tensor([-1 if each is None else each for each in judged(dataset, sample_N, seen.labels_N)])
    class_N = given_N.where(given_N != UNLABELLED, seen.labels_N)
    values_NA = torch.stack([class_N, seen.counts_N, right], dim=1)[asked_N]
    return asked_N[varied(values_NA, _NEW_TO_SHOW, _GALLERY)].tolist()


def _shown(sample_N: Tensor, seen: Seen | None, chosen: list[int], images_C: Tensor) -> list[int]:
    """Images with a tile: the sample in its order, then the labelled ones that voted or were drawn."""
    if seen is None or not chosen:
        return sample_N.tolist()
    slots = torch.cat([seen.voters_NJK[chosen].flatten(), seen.positives_NP[chosen].flatten()])
    others = images_C[slots[slots != NO_SLOT]].unique()
    others = others[(others != NO_IMAGE) & ~torch.isin(others, sample_N)]
    return [*sample_N.tolist(), *others.tolist()]


def _images(dataset: Dataset, shown: Iterable[int]) -> dict[str, list[Any]]:
    """Labels that the user gave, and no others."""
    content: dict[str, list[Any]] = {"name": [], "label": [], "role": []}
    for image in shown:
        label, role = int(dataset.labels_M[image]), "labelled"
        if label == UNLABELLED:
            label = UNLABELLED if dataset.held_out_M is None else int(dataset.held_out_M[image])
            role = "unlabelled" if label == UNLABELLED else "validation"
        content["name"].append(dataset.names[image])
        content["label"].append(label)
        content["role"].append(role)
    return content


def _sample(dataset: Dataset, sample_N: Tensor, seen: Seen | None, places_NP: Tensor) -> dict[str, list[Any]]:
    count = len(sample_N)
    vote_N = torch.full((count,), UNLABELLED) if seen is None else seen.labels_N
    x, y = ([round(place, 5) for place in places_NP[:, axis].tolist()] for axis in (0, 1))
    return {
        "image": list(range(count)),
        "vote": vote_N.tolist(),
        "votes": [0] * count if seen is None else seen.counts_N.tolist(),
        "tied": [0] * count if seen is None else seen.tied_N.int().tolist(),
        "right": judged(dataset, sample_N, vote_N),
        "x": x,
        "y": y,
    }


def _entry(n: int, seen: Seen, images_C: Tensor, tile: dict[int, int]) -> dict[str, Any]:
    voters, near_JK = [], seen.cosines_NJK[n].nan_to_num().tolist()
    for slots_K, near_K in zip(seen.voters_NJK[n].tolist(), near_JK, strict=True):
        pairs = zip(slots_K, near_K, strict=True)
        voters.append([[tile[int(images_C[c])], round(cosine, 4)] for c, cosine in pairs if c != NO_SLOT])
    positives = [tile[int(images_C[c])] for c in seen.positives_NP[n].tolist() if c != NO_SLOT]
    return {"of": n, "ballots": seen.ballots_NJ[n].tolist(), "voters": voters, "positives": positives}
