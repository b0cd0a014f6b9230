"""The whole journey on scikit-learn's digits: no download, minutes on two CPU cores.

Five labels for each class; four ways to use them; one table on test images that nothing was chosen on.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from rich.console import Console
from torch import nn

from semppl.config import Config, required
from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory, write_text
from semppl.core.tables import markdown_table, spread
from semppl.core.trust import Trust, counts_at_the_end, trust_by_votes
from semppl.data.dataset import Dataset
from semppl.evaluate.baselines import train_supervised_
from semppl.evaluate.neighbours import neighbour_sheet
from semppl.evaluate.scores import Judge, Score
from semppl.presets import digits
from semppl.train.build import build_state, build_views
from semppl.train.device import choose_device
from semppl.train.prepare import load_for, resolved_for
from semppl.train.pretrain import pretrain
from semppl.train.progress import print_table

SUPERVISED_STEPS = 400


@dataclass(frozen=True)
class Result:
    """One seed of the demo."""

    seed: int
    protocol: str
    scores: Mapping[str, Score]
    supervised_head: float
    """Accuracy of the supervised network's own classifier."""
    trust: Sequence[Trust]


ROWS = ("raw pixels", "supervised only", "ReLICv2", "SemPPL")


def run_demo(
    out: Path,
    *,
    seeds: Sequence[int],
    console: Console,
    device: str = "auto",
    precision: Literal["auto", "fp32", "bf16"] = "auto",
    overwrite: bool = False,
) -> list[Result]:
    """All seeds, then the table and the verdict; an interrupted demo goes on where it stopped."""
    folders = {seed: out if len(seeds) == 1 else out / f"seed{seed}" for seed in seeds}
    if not any((folder / "relicv2").is_dir() for folder in folders.values()) and not overwrite:
        _require_no_files([out, *folders.values()])
    results = []
    for seed, folder in folders.items():
        config = replace(digits(), seed=seed, device=device, precision=precision)
        results.append(_one_seed(config, folder, console, overwrite))
    show(results, console)
    write_text(out / "results.md", markdown(results))
    console.print(f"tables, pictures and runs: {out}", highlight=False)
    look = folders[seeds[0]] / "semppl"
    console.print(f"one page about a run: semppl report {look}", highlight=False, soft_wrap=True)
    return results


def _require_no_files(folders: Sequence[Path]) -> None:
    """Files of the demo's names in a folder without a demo are somebody's own."""
    for folder in folders:
        for name in ("results.md", "results.json", "neighbours.png"):
            if (folder / name).exists():
                raise UserError(f"{folder / name} is there already: choose another --out, or use --overwrite")


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
    device = choose_device(config.device)
    dataset = load_for(config, device)
    config = resolved_for(config, dataset)
    judge = Judge(dataset, required(config.views.large_size), device)
    encoders["supervised only"], head = _supervised(config, dataset, judge, console)
    scores = {"raw pixels": judge.score(None)}
    scores |= {name: judge.score(encoder) for name, encoder in encoders.items()}
    result = Result(
        seed=config.seed,
        protocol=judge.protocol,
        scores={name: scores[name] for name in ROWS},
        supervised_head=judge.head_accuracy(encoders["supervised only"], head),
        trust=_trust(runs["SemPPL"][1], config, len(dataset.labels_M)),
    )
    write_text(folder / "results.json", json.dumps(asdict(result), indent=2) + "\n")
    neighbour_sheet(judge, encoders["SemPPL"]).save(folder / "neighbours.png")
    return result


def _supervised(
    config: Config, dataset: Dataset, judge: Judge, console: Console
) -> tuple[nn.Module, nn.Linear]:
    console.print("training on the labels alone", highlight=False)
    encoder = build_state(config, len(dataset.classes), judge.mean_3.device).online.encoder
    head = train_supervised_(
        encoder,
        judge.images_L3HW,
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
    return trust_by_votes(*counts_at_the_end(run.read_metrics(), config.steps_of(1, num_images)))


SCORE_COLUMNS = ("trained on", "k-NN", "linear")
TRUST_COLUMNS = ("ballots that agree, at least", "precision", "recall", "coverage")


def score_rows(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """A line for each way to use the labels."""
    rows: list[tuple[str, ...]] = []
    for name in ROWS:
        scores = [result.scores[name] for result in results]
        rows.append((name, spread([s.knn for s in scores]), spread([s.linear for s in scores])))
    return rows


def trust_rows(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """A line for each number of ballots."""
    rows: list[tuple[str, ...]] = []
    for lines in zip(*(result.trust for result in results), strict=True):
        values = zip(*((line.precision, line.recall, line.coverage) for line in lines), strict=True)
        rows.append((str(lines[0].votes), *(spread([100 * value for value in column]) for column in values)))
    return rows


def show(results: Sequence[Result], console: Console) -> None:
    """The table, the trust in pseudo-labels and the verdict."""
    title = f"Accuracy in per cent, {_seeds(results)}"
    print_table(console, title, SCORE_COLUMNS, score_rows(results))
    console.print(f"protocol: {results[0].protocol}", highlight=False, soft_wrap=True)
    console.print(_own_classifier(results), highlight=False)
    print_table(console, "Pseudo-labels of the last epoch", TRUST_COLUMNS, trust_rows(results))
    console.print(verdict(results), highlight=False, soft_wrap=True)


def markdown(results: Sequence[Result]) -> str:
    """The same as a document."""
    parts = [
        f"# Digits with few labels, {_seeds(results)}",
        f"`semppl demo --seed {results[0].seed} --seeds {len(results)}` wrote this page. Accuracy in per cent"
        + (", mean ± standard deviation over seeds." if len(results) > 1 else "."),
        markdown_table(SCORE_COLUMNS, score_rows(results)),
        f"Protocol: {results[0].protocol}. {_own_classifier(results)}.",
        "Linear accuracy of each seed:",
        markdown_table(
            ("trained on", *(f"seed {result.seed}" for result in results)),
            [(name, *(f"{result.scores[name].linear:.1f}" for result in results)) for name in ROWS],
        ),
        "Pseudo-labels of the last epoch against the withheld labels:",
        markdown_table(TRUST_COLUMNS, trust_rows(results)),
        f"{verdict(results)}.",
    ]
    return "\n\n".join(parts) + "\n"


def _seeds(results: Sequence[Result]) -> str:
    names = ", ".join(str(result.seed) for result in results)
    return f"seed {names}" if len(results) == 1 else f"seeds {names}"


def _own_classifier(results: Sequence[Result]) -> str:
    own = spread([result.supervised_head for result in results])
    return f"The supervised network's own classifier: {own}"


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
