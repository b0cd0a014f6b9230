"""The paper's tables by name, and one of own rows. Nothing here trains or reads; a table is built from a
resolved configuration, because two of them scale its own values. No torch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from semppl.ablate.own import AS_CONFIGURED, OWN, own_table
from semppl.ablate.settings import AblateFlags, labels_per_class
from semppl.ablate.table import PSEUDO, Change, Row, Table
from semppl.config import Config, required
from semppl.core.errors import UserError


def build_table(name: str, base: Config, per_class: Sequence[int], rows: Sequence[str] = ()) -> Table:
    """By name, from a resolved configuration."""
    if name == OWN:
        return own_table(base, rows)
    method = base.method
    if method.positives < 1 or method.alpha <= 0 or method.labels != "pseudo":
        raise UserError(
            "ablate takes SemPPL apart, so it starts from all of it: leave --method.positives 0, "
            "--method.alpha 0 and --method.labels out"
        )
    if name == "labels":
        return _labels(per_class)
    return _BUILDERS[name](base)


def _method(slug: str, **values: Any) -> Change:
    return Change(slug, lambda config: replace(config, method=replace(config.method, **values)))


_WITHOUT: Final = _method("positives-0", positives=0)


def _objective(name: str) -> Change:
    """Another objective takes its own negatives, and its own view on a view compared with itself."""

    def apply(config: Config) -> Config:
        if config.method.objective == name:
            return config
        method = replace(config.method, objective=name, negatives=None, same_view=None)  # type: ignore[arg-type]
        return replace(config, method=method)

    return Change(name, apply)


def _base(_: Config) -> Table:
    relicv2, byol, simclr = (_objective(name) for name in ("relicv2", "byol", "simclr"))
    more = " + semantic positives"
    return Table(
        "base",
        "Base objective, without and with semantic positives",
        [
            Row("ReLICv2", (relicv2, _WITHOUT), {"1 %": 58.1, "10 %": 72.4}),
            Row(f"ReLICv2{more}", (relicv2,), {"1 %": 68.5, "10 %": 76.0, "100 %": 79.7}, "ReLICv2"),
            Row("BYOL", (byol, _WITHOUT), {"1 %": 53.2, "10 %": 68.8}, "ReLICv2"),
            Row(f"BYOL{more}", (byol,), {"1 %": 57.1, "10 %": 72.4, "100 %": 77.7}, "BYOL"),
            Row("SimCLR", (simclr, _WITHOUT), {"1 %": 48.3, "10 %": 65.6}, "ReLICv2"),
            Row(f"SimCLR{more}", (simclr,), {"100 %": 76.0}, "SimCLR"),
        ],
        "its table of other self-supervised objectives, and the main one for SimCLR; 300 epochs, ResNet-50; "
        "the column 100 % is its table with all labels",
        "the paper's BYOL, ReLICv2 and SimCLR were trained with recipes and durations of their own; here all "
        "rows have the same one, and only the objective, its negatives and its pairs of views differ",
    )


def _parts(_: Config) -> Table:
    return Table(
        "parts",
        "Without pseudo-labels, and without semantic positives",
        [
            Row("SemPPL", (), {"1 %": 68.5, "10 %": 76.0}),
            Row(
                "− pseudo-labels",
                (_method("labels-given", labels="given"),),
                {"1 %": 61.9, "10 %": 71.1},
                "SemPPL",
            ),
            Row("− semantic positives", (_WITHOUT,), {"1 %": 58.1, "10 %": 72.4}, "SemPPL"),
        ],
        "its table of what pseudo-labelling and semantic positives contribute; 300 epochs, ResNet-50",
    )


def _oracle(_: Config) -> Table:
    oracle = _method("labels-oracle", labels="oracle")
    return Table(
        "oracle",
        "True labels instead of pseudo-labels",
        [
            Row("SemPPL", (), {"10 %": 69.9, PSEUDO: 69.7}),
            Row("+ oracle", (oracle,), {"10 %": 71.6, PSEUDO: 76.9}, "SemPPL"),
        ],
        "its table on the oracle; 100 epochs, ResNet-50",
    )


def _varied(values: Mapping[str, tuple[Change, float, float | None]], reference: str) -> list[Row]:
    """Rows that differ in one value: name → change, the paper's top-1 with 10 % and its pseudo-labels."""
    rows = []
    for value, (change, top1, pseudo) in values.items():
        paper = {"10 %": top1} if pseudo is None else {"10 %": top1, PSEUDO: pseudo}
        rows.append(Row(value, (change,), paper, None if value == reference else reference))
    return rows


def _positives(_: Config) -> Table:
    numbers = {1: (69.9, 68.6), 2: (69.9, 70.9), 3: (69.9, 69.0), 5: (71.0, 72.8), 10: (70.7, 72.9)}
    values = {
        str(count): (_method(f"positives-{count}", positives=count), *paper)
        for count, paper in numbers.items()
    }
    return Table(
        "positives",
        "Number of semantic positives",
        _varied(values, "3"),
        "its table of semantic positives; 100 epochs, ResNet-50",
    )


def _epochs(base: Config) -> Table:
    numbers = {100: (69.9, 69.2), 200: (72.4, 76.8), 300: (72.7, 77.9), 500: (72.3, 75.6)}
    values, reference = {}, ""
    for paper, accuracies in numbers.items():
        count = base.epochs * paper / 300
        name = f"{count:.4g} (paper: {paper})"
        reference = name if paper == 300 else reference
        values[name] = (Change(f"epochs-{count:.4g}", _with_epochs(count)), *accuracies)
    return Table(
        "epochs",
        "Length of training in epochs",
        _varied(values, reference),
        "its table on the length of training; ResNet-50",
        "lengths keep the paper's ratios to its 300; everything else, warm-up included, stays as in the full "
        "length",
    )


def _with_epochs(count: float) -> Callable[[Config], Config]:
    return lambda config: replace(config, epochs=count)


def _voting(base: Config) -> Table:
    """A threshold on ballots, or a weight by them, is beyond the paper and means nothing with one ballot, so
    both rows are without; the configuration itself is then a third.
    """
    plain = _method("votes-0", minimum_votes=0, vote_power=0.0)
    rows = [
        Row("on", (plain, _method("voting-all", voting="all")), {"10 %": 69.9, PSEUDO: 68.6}),
        Row("off", (plain, _method("voting-one", voting="one")), {"10 %": 69.0, PSEUDO: 62.5}, "on"),
    ]
    uses = []
    if base.method.minimum_votes:
        uses.append(f"asks for {base.method.minimum_votes} of {base.num_ballots} ballots")
    if base.method.vote_power:
        uses.append(f"weighs by the share of ballots to the power {base.method.vote_power:g}")
    note = ""
    if uses:
        rows.append(Row("on, as configured", (), {}, "on"))
        note = f"on and off use all pseudo-labels alike, as the paper does; the last row {' and '.join(uses)}"
    return Table(
        "voting", "View voting", rows, "its table on view voting; 100 epochs, ResNet-50, 16 ballots", note
    )


def _k(_: Config) -> Table:
    numbers = {1: (70.0, 70.5), 2: (69.9, 69.5), 3: (69.8, 70.0), 5: (69.8, 70.0), 10: (69.1, 68.0)}
    values = {str(k): (_method(f"k-{k}", k=k), *paper) for k, paper in numbers.items()}
    return Table(
        "k",
        "Neighbours of a ballot, k",
        _varied(values, "1"),
        "its table on nearest neighbours; 100 epochs, ResNet-50",
    )


def _queue(base: Config) -> Table:
    numbers = {
        4_000: (67.9, 53.1),
        8_000: (68.6, 60.4),
        12_000: (68.8, 62.0),
        20_000: (69.2, 64.3),
        40_000: (69.6, 66.9),
        80_000: (69.9, 68.8),
        200_000: (69.8, 69.5),
    }
    values, reference = {}, ""
    for paper, accuracies in numbers.items():
        capacity = max(round(required(base.method.queue_capacity) * paper / 80_000), 1)
        name = f"{capacity:,} (paper: {paper:,})"
        reference = name if paper == 80_000 else reference
        values[name] = (_method(f"queue-{capacity}", queue_capacity=capacity), *accuracies)
    return Table(
        "queue",
        "Length of the queue",
        _varied(values, reference),
        "its table on queue length; 100 epochs, ResNet-50",
        "lengths keep the paper's ratios to its 80,000",
    )


def _alpha(_: Config) -> Table:
    """α = 0 computes what 0 positives compute, so they are one cell."""
    values: dict[str, tuple[Change, float, float | None]] = {
        "0 (no semantic positives)": (_WITHOUT, 72.4, None),
        "0.2": (_method("alpha-0.2", alpha=0.2), 76.0, None),
        "1": (_method("alpha-1", alpha=1.0), 74.6, None),
    }
    return Table(
        "alpha",
        "Weight of the semantic loss, α",
        _varied(values, "0.2"),
        "its table on α; 300 epochs, ResNet-50",
        "the paper's row for 0 has the number of its ReLICv2, which was trained for longer",
    )


def _labels(per_class: Sequence[int]) -> Table:
    rows = []
    for count in per_class:
        keep = Change(f"labels-{count}", _with_labels(count))
        rows.append(Row(with_name(count), (keep,)))
        rows.append(Row(without_name(count), (keep, _WITHOUT), {}, with_name(count), (-10.4, -3.6)))
    return Table(
        "labels",
        "Labels for each class, with and without semantic positives",
        rows,
        "of its table of what semantic positives contribute: −10.4 without them at 1 % of ImageNet's labels "
        "(13 for each class), −3.6 at 10 % (128)",
    )


def with_name(per_class: int) -> str:
    """The row of the table labels."""
    return f"{per_class} per class"


def without_name(per_class: int) -> str:
    """The row beside it."""
    return f"{per_class} per class − semantic positives"


ASKED_ROWS: Final[Mapping[str, Callable[[AblateFlags], list[str]]]] = {
    "labels": lambda flags: [row.name for row in _labels(labels_per_class(flags)).rows],
    OWN: lambda flags: [AS_CONFIGURED, *flags.rows],
}
"""Names of the rows of tables in which flags say which there are."""


def _with_labels(count: int) -> Callable[[Config], Config]:
    return lambda config: replace(
        config, data=replace(config.data, labels_per_class=count, label_fraction=None)
    )


_BUILDERS: Final[Mapping[str, Callable[[Config], Table]]] = {
    "base": _base,
    "parts": _parts,
    "oracle": _oracle,
    "positives": _positives,
    "epochs": _epochs,
    "voting": _voting,
    "k": _k,
    "queue": _queue,
    "alpha": _alpha,
}
