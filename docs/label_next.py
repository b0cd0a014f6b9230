"""What `label_next` is worth: labels that it asks for beside as many others, for docs/fit-measured.md.

    .venv/bin/python docs/label_next.py digits --labels-per-class 2 --seeds 30 31 32 33

Each seed pre-trains by the preset of digits with few labels. Each rule then chooses some images more by these
features, their true labels are given, and a linear classifier and k-NN on the same features are marked on the
test images. With `--again` pre-training also begins anew with these labels, at random with those of the first
draw. Runs stay in `--out`, and what is there is not trained again.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

import semppl
from semppl.data.arrays import load_npz
from semppl.data.dataset import Dataset
from semppl.data.digits import load_digits
from semppl.evaluate.advice import label_next
from semppl.evaluate.bank import LabelledBank, build_bank
from semppl.evaluate.linear import fit_linear

DRAWS = 8


class Features(NamedTuple):
    """Of all training images and of all test images."""

    train_MF: Tensor
    test_TF: Tensor


class Marks(NamedTuple):
    """Per cent of the test images that are right."""

    linear: float
    knn: float


def at_random(features_NF: Tensor, bank: LabelledBank, count: int, draw: int = 0) -> list[int]:
    """Any."""
    del bank
    return torch.randperm(len(features_NF), generator=torch.Generator().manual_seed(draw))[:count].tolist()


def in_doubt(features_NF: Tensor, bank: LabelledBank, count: int) -> list[int]:
    """Those of which the nearest labels agree least."""
    return bank.ask(features_NF).share_N.argsort(stable=True)[:count].tolist()


def farthest(features_NF: Tensor, bank: LabelledBank, count: int) -> list[int]:
    """Again and again what is least like all that is labelled or chosen."""
    vectors_NF = torch.nn.functional.normalize(features_NF)
    cosine_N, picks = (vectors_NF @ bank.features_LF.T).amax(1), list[int]()
    for _ in range(min(count, len(vectors_NF))):
        picks.append(int(cosine_N.argmin()))
        cosine_N = cosine_N.maximum(vectors_NF @ vectors_NF[picks[-1]])
        cosine_N[picks[-1]] = torch.inf
    return picks


def advised(features_NF: Tensor, bank: LabelledBank, count: int) -> list[int]:
    """Those of `fit`'s label_next.csv, if its model has these features."""
    return [each.index for each in label_next(bank.ask(features_NF), features_NF, bank, count=count)]


RULES: Mapping[str, Callable[[Tensor, LabelledBank, int], list[int]]] = {
    "at random": at_random,
    "in doubt": in_doubt,
    "farthest": farthest,
    "label_next": advised,
}


def features_of(run: Path, dataset: Dataset) -> Features:
    """By the network of a run."""
    network = semppl.load(run)
    test_images = dataset.test_images
    if not isinstance(dataset.images, Tensor) or not isinstance(test_images, Tensor):
        sys.exit(f"{dataset.name}: wants images in memory, and some for testing")
    if tuple(dataset.images.shape[-2:]) != (network.preprocessing.size,) * 2:
        sys.exit(f"{dataset.name}: wants images of {network.preprocessing.size} px, the size of its views")

    @torch.no_grad()
    def features(images_N3HW: Tensor) -> Tensor:
        mean_311, std_311 = (each[:, None, None] for each in (network.mean_3, network.std_3))
        return torch.cat([network((part / 255 - mean_311) / std_311) for part in images_N3HW.split(512)])

    return Features(features(dataset.images), features(test_images))


def truth_of(dataset: Dataset) -> Tensor:
    """The labels of the test images."""
    if dataset.test_labels_T is None:
        sys.exit(f"{dataset.name}: wants test images with labels")
    return dataset.test_labels_T


def marked(features: Features, dataset: Dataset, index_L: Tensor) -> Marks:
    """With these labels."""
    known_LF, labels_L, classes = features.train_MF[index_L], dataset.labels_M[index_L], len(dataset.classes)
    linear_T = fit_linear(known_LF, labels_L, classes=classes).logits(features.test_TF).argmax(1)
    knn_T = build_bank(known_LF, labels_L, classes).ask(features.test_TF).labels_N
    right = [100 * float(each.eq(truth_of(dataset)).double().mean()) for each in (linear_T, knn_T)]
    return Marks(*right)


def pretrain(data: str, run: Path, flags: Sequence[str]) -> None:
    """To the end; goes on where it was stopped."""
    begun = (run / "config.yaml").is_file()
    words = ["--resume"] if begun else [data, "--preset", "digits", *flags]
    command = [sys.executable, "-m", "semppl", "pretrain", *words, "--out", str(run)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def given(run: Path) -> Tensor:
    """Positions of the images that had a label."""
    rows = (run / "split.csv").read_text().splitlines()[1:]
    roles = [row.rsplit(",", 1)[1] for row in rows if not row.endswith(",test")]
    return torch.tensor([role == "labelled" for role in roles]).nonzero().squeeze(1)


def write_labels(file: Path, dataset: Dataset, index_L: Tensor) -> None:
    """The data set with these labels alone."""
    labels_M = torch.full_like(dataset.labels_M, -1)
    labels_M[index_L] = dataset.labels_M[index_L]
    images = [each.permute(0, 2, 3, 1).numpy() for each in (dataset.images, dataset.test_images)]  # type: ignore[union-attr]
    np.savez(file, x=images[0], y=labels_M, x_test=images[1], y_test=truth_of(dataset))


def main() -> None:
    """A line for each seed and rule, then means."""
    about = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=about)
    parser.add_argument("data", help="digits, or an npz file with all labels and test images")
    parser.add_argument("--labels-per-class", type=int, default=2, help="at first")
    parser.add_argument("--count", type=int, default=20, help="labels more")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", default="80")
    parser.add_argument("--again", action="store_true", help="also pre-train anew with the labels")
    parser.add_argument("--out", type=Path, default=Path("runs/label-next"))
    flags = parser.parse_args()
    dataset = load_digits() if flags.data == "digits" else load_npz(Path(flags.data))
    table: dict[str, list[Marks]] = {}

    def note(seed: int, name: str, marks: Marks) -> None:
        print(f"seed {seed}, {name}: linear {marks.linear:.1f}, k-NN {marks.knn:.1f}", flush=True)
        table.setdefault(name, []).append(marks)

    for seed in flags.seeds:
        run = flags.out / f"{Path(flags.data).stem}-{flags.labels_per_class}-{seed}-epochs{flags.epochs}"
        training = ["--epochs", flags.epochs, "--seed", str(seed), "--labels-per-class"]
        pretrain(flags.data, run, [*training, str(flags.labels_per_class)])
        features, index_L = features_of(run, dataset), given(run)
        free_N = torch.ones(len(dataset.labels_M), dtype=torch.bool).index_fill(0, index_L, value=False)
        free_N = free_N.nonzero().squeeze(1)
        bank = build_bank(features.train_MF[index_L], dataset.labels_M[index_L], len(dataset.classes))
        note(seed, "before", marked(features, dataset, index_L))
        for name, rule in RULES.items():
            asked_NF = features.train_MF[free_N]
            chosen = [rule(asked_NF, bank, flags.count)]
            if rule is at_random:
                chosen += [at_random(asked_NF, bank, flags.count, draw) for draw in range(1, DRAWS)]
            sets = [torch.cat([index_L, free_N[torch.tensor(each)]]) for each in chosen]
            marks = [marked(features, dataset, each) for each in sets]
            note(seed, name, Marks(*(sum(column) / len(marks) for column in zip(*marks, strict=True))))
            if flags.again and rule in (at_random, advised):
                anew = run.with_name(f"{run.name}-{flags.count}-{name.replace(' ', '-')}")
                file = run.with_name(f"{anew.name}.npz")
                write_labels(file, dataset, sets[0])
                pretrain(str(file), anew, [*training, "None"])
                note(seed, f"{name}, again", marked(features_of(anew, dataset), dataset, sets[0]))
    print(f"\nmean over {len(flags.seeds)} seeds of {flags.data}, {flags.count} labels more")
    for name, rows in table.items():
        linear, knn = (sum(column) / len(rows) for column in zip(*rows, strict=True))
        print(f"{name}: linear {linear:.1f}, k-NN {knn:.1f}")


if __name__ == "__main__":
    main()
