"""The whole journey on scikit-learn's digits: no download, minutes on two CPU cores.

Five labels for each class; four ways to use them; one table on test images that nothing was chosen on.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from PIL import Image, ImageDraw
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from semppl.config import Config, required, resolved
from semppl.core.rundir import RunDirectory, write_text
from semppl.data.dataset import Dataset
from semppl.evaluate.baselines import train_supervised_
from semppl.evaluate.features import extract_features
from semppl.evaluate.knn import accuracy, knn_predict
from semppl.evaluate.labels import Trust, trust_by_votes
from semppl.evaluate.linear import linear_predict
from semppl.method.pseudo_labels import nearest
from semppl.nets.heads import unit
from semppl.presets import digits
from semppl.train.build import build_state, build_views, choose_device
from semppl.train.pretrain import load_for, pretrain

NEIGHBOURS = 5
SUPERVISED_STEPS = 400
PROTOCOL = (
    f"360 test digits; 50 labels; k-NN: cosine, k={NEIGHBOURS}, T=0.1; linear: l2 logistic regression on "
    "frozen features, penalty by cross-validation inside the 50 labels"
)


@dataclass(frozen=True)
class Score:
    """Accuracy on the test images, in per cent."""

    knn: float
    linear: float


@dataclass(frozen=True)
class Result:
    """One seed of the demo."""

    seed: int
    scores: Mapping[str, Score]
    supervised_head: float
    """Accuracy of the supervised network's own classifier."""
    trust: Sequence[Trust]


ROWS = ("raw pixels", "supervised only", "ReLICv2", "SemPPL")


def run_demo(
    out: Path, *, seeds: Sequence[int], device: str, console: Console, overwrite: bool = False
) -> list[Result]:
    """All seeds, then the table and the verdict; an interrupted demo goes on where it stopped."""
    results = []
    for seed in seeds:
        folder = out if len(seeds) == 1 else out / f"seed{seed}"
        results.append(_one_seed(replace(digits(), seed=seed, device=device), folder, console, overwrite))
    show(results, console)
    return results


def _one_seed(config: Config, folder: Path, console: Console, overwrite: bool) -> Result:
    runs = {
        "ReLICv2": (
            replace(config, method=replace(config.method, positives=0)),
            RunDirectory(folder / "relicv2"),
        ),
        "SemPPL": (config, RunDirectory(folder / "semppl")),
    }
    encoders: dict[str, nn.Module] = {}
    for name, (variant, run) in runs.items():
        go_on = run.exists and not overwrite
        state = pretrain(
            variant,
            run,
            console=console,
            resume=go_on,
            overwrite=overwrite,
            title=f"{name}, seed {config.seed}",
            hint="the same command goes on from there",
        )
        encoders[name] = state.online.encoder
    dataset = load_for(config)
    config = resolved(config, image_size=dataset.size, num_images=len(dataset.labels_M))
    judge = Judge(dataset, required(config.views.large_size), choose_device(config.device))
    encoders["supervised only"], head = _supervised(config, dataset, judge, console)
    scores = {"raw pixels": judge.score(None)}
    scores |= {name: judge.score(encoder) for name, encoder in encoders.items()}
    result = Result(
        seed=config.seed,
        scores={name: scores[name] for name in ROWS},
        supervised_head=judge.head_accuracy(encoders["supervised only"], head),
        trust=_trust(runs["SemPPL"][1], config, len(dataset.labels_M)),
    )
    write_text(folder / "results.json", json.dumps({"protocol": PROTOCOL, **asdict(result)}, indent=2) + "\n")
    judge.picture(encoders["SemPPL"]).save(folder / "neighbours.png")
    console.print(f"pictures and numbers of seed {config.seed}: {folder}", highlight=False)
    return result


class Judge:
    """Scores encoders on the test images with the same labels and the same protocol."""

    def __init__(self, dataset: Dataset, size: int, device: torch.device) -> None:
        self.dataset, self.size = dataset, size
        self.test_images = required(dataset.test_images_T3HW)
        self.test_labels = required(dataset.test_labels_T)
        mean_3, std_3 = dataset.statistics()
        self.mean_3, self.std_3 = mean_3.to(device), std_3.to(device)
        self.images_L = dataset.images_M3HW[dataset.labelled_L]
        self.labels_L = dataset.labels_M[dataset.labelled_L]

    def features(self, encoder: nn.Module | None, images_N3HW: Tensor) -> Tensor:
        """Of an encoder, or the pixels themselves."""
        if encoder is None:
            return images_N3HW.flatten(1).float()
        return extract_features(encoder, images_N3HW, size=self.size, mean_3=self.mean_3, std_3=self.std_3)

    def score(self, encoder: nn.Module | None) -> Score:
        """k-NN and linear accuracy."""
        test, labelled = self.features(encoder, self.test_images), self.features(encoder, self.images_L)
        classes = len(self.dataset.classes)
        knn = knn_predict(test, labelled, self.labels_L, k=NEIGHBOURS, classes=classes)
        linear = linear_predict(test, labelled, self.labels_L)
        return Score(100 * accuracy(knn, self.test_labels), 100 * accuracy(linear, self.test_labels))

    @torch.no_grad()
    def head_accuracy(self, encoder: nn.Module, head: nn.Linear) -> float:
        """Of a network with a classifier of its own."""
        logits = head.cpu()(self.features(encoder, self.test_images))
        return 100 * accuracy(logits.argmax(1), self.test_labels)

    def picture(self, encoder: nn.Module, *, rows: int = 10, scale: int = 6) -> Image.Image:
        """Test images of each class, and beside each the labelled images that are nearest to it.

        A green frame is a neighbour of the same class, a red one is not.
        """
        shown = torch.cat(
            [(self.test_labels == y).nonzero()[:2, 0] for y in range(len(self.dataset.classes))]
        )
        shown = shown[: 2 * rows]
        queries = unit(self.features(encoder, self.test_images[shown]))
        keys = unit(self.features(encoder, self.images_L))
        slots = torch.arange(len(keys))
        _, near_NK = nearest(queries, keys, slots, NEIGHBOURS)
        side = self.test_images.shape[-1] * scale
        cell, gap = side + 8, 24
        width = 2 * (cell * (NEIGHBOURS + 1) + gap) + gap
        sheet = Image.new("RGB", (width, cell * ((len(shown) + 1) // 2) + gap), "white")
        draw = ImageDraw.Draw(sheet)
        for n, index in enumerate(shown.tolist()):
            left, top = gap + (n % 2) * (cell * (NEIGHBOURS + 1) + gap), gap // 2 + (n // 2) * cell
            _paste(sheet, draw, self.test_images[index], (left, top), side, "black")
            for rank, slot in enumerate(near_NK[n].tolist()):
                good = self.labels_L[slot] == self.test_labels[index]
                place = (left + 12 + cell * (rank + 1), top)
                _paste(sheet, draw, self.images_L[slot], place, side, "#1a9850" if good else "#d73027")
        return sheet


def _paste(
    sheet: Image.Image,
    draw: ImageDraw.ImageDraw,
    image_3HW: Tensor,
    place: tuple[int, int],
    side: int,
    frame: str,
) -> None:
    left, top = place
    tile = Image.fromarray(image_3HW.permute(1, 2, 0).numpy()).resize((side, side), Image.Resampling.NEAREST)
    draw.rectangle((left - 3, top - 3, left + side + 2, top + side + 2), fill=frame)
    sheet.paste(tile, place)


def _supervised(
    config: Config, dataset: Dataset, judge: Judge, console: Console
) -> tuple[nn.Module, nn.Linear]:
    console.print("training on the labels alone", highlight=False)
    encoder = build_state(config, len(dataset.classes), judge.mean_3.device).online.encoder
    head = train_supervised_(
        encoder,
        judge.images_L,
        judge.labels_L,
        num_features=int(encoder.num_features),  # type: ignore[arg-type]
        classes=len(dataset.classes),
        view=build_views(config.views)[0],
        mean_3=judge.mean_3,
        std_3=judge.std_3,
        steps=SUPERVISED_STEPS,
        seed=config.seed,
    )
    return encoder, head


def _trust(run: RunDirectory, config: Config, num_images: int) -> list[Trust]:
    """Pseudo-labels of the last epoch against the withheld labels."""
    rows = [row for row in run.read_metrics() if "pseudo/right_by_votes" in row]
    since = rows[-1]["step"] - config.steps_of(1, num_images)
    last = [row for row in rows if row["step"] > since]
    right = [sum(column) for column in zip(*(row["pseudo/right_by_votes"] for row in last), strict=True)]
    known = [sum(column) for column in zip(*(row["pseudo/known_by_votes"] for row in last), strict=True)]
    return trust_by_votes(right, known)


def show(results: Sequence[Result], console: Console) -> None:
    """The table, the trust in pseudo-labels and the verdict."""
    seeds = ", ".join(str(result.seed) for result in results)
    table = Table(title=f"Accuracy on test images in per cent (seeds {seeds})", title_justify="left")
    table.add_column("trained on")
    table.add_column("k-NN", justify="right")
    table.add_column("linear", justify="right")
    for name in ROWS:
        scores = [result.scores[name] for result in results]
        table.add_row(name, spread([s.knn for s in scores]), spread([s.linear for s in scores]))
    console.print(table)
    console.print(f"protocol: {PROTOCOL}", highlight=False, soft_wrap=True)
    own = spread([result.supervised_head for result in results])
    console.print(f"the supervised network's own classifier: {own}", highlight=False)

    table = Table(title="Pseudo-labels of the last epoch", title_justify="left")
    for column in ("ballots that agree, at least", "precision", "recall", "coverage"):
        table.add_column(column, justify="right")
    for lines in zip(*(result.trust for result in results), strict=True):
        cells = [
            spread([100 * value for value in column])
            for column in zip(*((line.precision, line.recall, line.coverage) for line in lines), strict=True)
        ]
        table.add_row(str(lines[0].votes), *cells)
    console.print(table)
    console.print(verdict(results), highlight=False, soft_wrap=True)


def spread(values: Sequence[float]) -> str:
    """Mean, with the standard deviation over seeds where there are several."""
    mean = f"{statistics.mean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.1f}"


def verdict(results: Sequence[Result]) -> str:
    """Whether SemPPL helped, in one line: linear accuracy against the best of the others."""
    linear = {name: statistics.mean(r.scores[name].linear for r in results) for name in ROWS}
    linear["supervised only"] = max(
        linear["supervised only"], statistics.mean(r.supervised_head for r in results)
    )
    others = {name: value for name, value in linear.items() if name != "SemPPL"}
    best = max(others, key=lambda name: others[name])
    gain = linear["SemPPL"] - others[best]
    word = "SemPPL helped" if gain > 0 else "SemPPL did not help"
    return (
        f"{word}: {linear['SemPPL']:.1f} % by a linear probe, "
        f"{gain:+.1f} points against {best} ({others[best]:.1f} %)"
    )
