"""Every run on docs/results/cifar10.md, with its flags and evaluations; docs/cifar10.py makes them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

# labels → labels for each class, preset
LABELS = {
    4000: (400, "cifar10-4000"),
    500: (50, "cifar10-250"),
    250: (25, "cifar10-250"),
    40: (4, "cifar10-40"),
}
# what is made first: the numbers of labels that others have published
ORDER = (4000, 250, 40, 500)
# with which it is asked what fine-tuning on all images owes to pre-training
FINE_TUNED = (4000, 250)
SEEDS = (0, 1, 2)
# that of the published rows
PUBLISHED_NETWORK = "--encoder wrn28-2"
# epochs of the presets
LONG = 200
# half as long as the presets, so that there can be twice as many rows. The target follows as it would by
# itself in so many steps
SHORT = "--epochs 100 --method.target-decay 0.992 --speed compile"
# half as long again, for the many rows that take the method apart: they compare with one another
QUICK = "--epochs 50 --method.target-decay 0.984 --speed compile"
BASES = {
    "simclr": "--method.objective simclr --method.negatives None",
    "byol": "--method.objective byol --method.negatives None",
}
PARTS = {"given": "--method.labels given", "oracle": "--method.labels oracle"}
# of four pairs of two views two are of a view with itself
DIFFERENT_VIEWS = "--method.same-view False"
# what is not as in the preset, measured where labels are few
SWITCHES = {
    "all-votes": "--method.minimum-votes 0",
    "weighted-votes": "--method.minimum-votes 0 --method.vote-power 4",
    "five-positives": "--method.positives 5",
    # of all terms together each weighs as with three: contrasts 1 / 4 and 1.5 / 4, penalties 1
    "five-positives-as-three": "--method.positives 5 --method.alpha 0.3 --method.contrast-scale 1.5",
    "balanced": "--data.balance-labels True",
    "different-views": DIFFERENT_VIEWS,
}


@dataclass(frozen=True)
class Evaluation:
    """A call of evaluate."""

    protocols: tuple[str, ...]
    flags: str = ""
    name: str = ""

    def files(self) -> dict[str, str]:
        """Protocol → the file that it leaves."""
        return {each: f"{each}-{self.name}.json" if self.name else f"{each}.json" for each in self.protocols}

    def words(self) -> list[str]:
        """Its arguments but for the run."""
        return [
            "--protocol",
            *self.protocols,
            *self.flags.split(),
            *(["--name", self.name] if self.name else []),
        ]

    @property
    def kind(self) -> str:
        """Those of one kind take as long for each of their epochs."""
        return " ".join((*self.protocols, _without_numbers(self.flags))).strip()

    @property
    def epochs(self) -> int:
        """Of training, where it says how many; else it counts as one."""
        return _epochs(self.flags, 1)


def _without_numbers(flags: str) -> str:
    return re.sub(r"--(epochs|labels-per-class|seed) \S+", "", flags).strip()


def _epochs(flags: str, usual: int) -> int:
    words = flags.split()
    return int(words[words.index("--epochs") + 1]) if "--epochs" in words else usual


FROZEN = Evaluation(("knn", "linear"))
# the paper's three
PLAIN = Evaluation(("knn", "linear", "finetune"))
CONSISTENT = Evaluation(("finetune",), "--consistency --epochs 150", "consistency")
LONGER = replace(CONSISTENT, flags="--consistency --epochs 450", name="longer")
AVERAGED = replace(FROZEN, flags="--network target", name="target")
CONFIDENT = Evaluation(("finetune",), "--confident 0.95 --epochs 10", "confident")
TUNED = Evaluation(("finetune",))
# (labels, seed) → what else is measured of a main row: averaged weights, plain fine-tuning, and that with
# confident answers
OTHER_WAYS = {(250, 1): (AVERAGED, TUNED), (250, 2): (TUNED, CONFIDENT)}


@dataclass(frozen=True)
class Run:
    """One run directory, and what is measured of it."""

    name: str
    train: str
    """Flags of pretrain."""
    evaluations: tuple[Evaluation, ...]

    @property
    def kind(self) -> str:
        """What decides on how long an epoch takes, as for evaluations: the network."""
        return " ".join(("pretrain", *re.findall(r"--encoder \S+", self.train)))

    @property
    def epochs(self) -> int:
        """Of pre-training."""
        return _epochs(self.train, LONG)

    @property
    def files(self) -> set[str]:
        """Of all its results."""
        return {file for each in self.evaluations for file in each.files().values()}


def runs() -> Iterator[Run]:
    """The main rows first, seed by seed; no pre-training, and a better base; then what takes the method
    apart, more seeds of the paper's own comparison, the network of others, and at last what twice as many
    epochs of pre-training and three times as many of fine-tuning give.
    """
    for seed in SEEDS:
        yield from _main_rows(seed)
    # what the same fine-tuning gives from random weights, and without semantic positives from the better base
    alone = replace(CONSISTENT, protocols=("supervised",))
    yield _without_labels("no-pretraining", 0, "--epochs 1", _of_each(alone, FINE_TUNED))
    tuned = _of_each(CONSISTENT, FINE_TUNED)
    yield _better_base("short", SHORT, (*_of_each(FROZEN), *tuned))
    for base, flags in ({"relicv2": ""} | BASES).items():
        yield _without_labels(f"{base}-quick", 0, f"{QUICK} {flags}", _of_each(PLAIN))
    for labels in ORDER:
        yield _semppl(labels, 0, "-quick", QUICK, (PLAIN,))
        for name, flags in (BASES | PARTS).items():
            yield _semppl(labels, 0, f"-{name}-quick", f"{QUICK} {flags}", (PLAIN,))
    yield _better_base("quick", QUICK, _of_each(PLAIN))
    # half as many pairs are averaged there, so contrasts weigh twice as much beside the penalty: is it that?
    yield _better_base("more-penalty-quick", f"{QUICK} --method.invariance-scale 2", _of_each(PLAIN))
    for name, flags in SWITCHES.items():
        yield _semppl(250, 0, f"-{name}-quick", f"{QUICK} {flags}", (PLAIN,))
    yield from _papers_comparison(SEEDS[1:])
    for labels in ORDER[:3]:
        yield _semppl(labels, 0, "-wrn-short", f"{SHORT} {PUBLISHED_NETWORK}", (FROZEN, CONSISTENT))
    for labels in ORDER[:3]:
        yield _semppl(labels, 0, "", "", (FROZEN, LONGER))
    yield _without_labels("relicv2", 0, "", _of_each(FROZEN))


def _main_rows(seed: int) -> Iterator[Run]:
    """Some are also measured in other ways."""
    for labels in ORDER:
        more = OTHER_WAYS.get((labels, seed), ())
        yield _semppl(labels, seed, "-short", SHORT, (FROZEN, CONSISTENT, *more))
    yield _without_labels("relicv2-short", seed, SHORT, _of_each(FROZEN))
    # of its run it takes the network and the split alone: one epoch will do
    alone = Evaluation(("supervised",), f"--seed {seed}", "hard")
    yield _without_labels("supervised", seed, "--epochs 1", _of_each(alone))


def _papers_comparison(seeds: Iterable[int]) -> Iterator[Run]:
    """With semantic positives and without, both fine-tuned as in the paper; the main rows are not."""
    for seed in seeds:
        yield _without_labels("relicv2-quick", seed, QUICK, _of_each(PLAIN))
        yield _better_base("quick", QUICK, _of_each(PLAIN), seed)
        for labels in ORDER:
            yield _semppl(labels, seed, "-quick", QUICK, (PLAIN,))


def _semppl(labels: int, seed: int, suffix: str, flags: str, evaluations: tuple[Evaluation, ...]) -> Run:
    per_class, preset = LABELS[labels]
    train = f"--preset {preset} --labels-per-class {per_class} --seed {seed} {flags}"
    return Run(f"semppl-{labels}{suffix}-seed{seed}", train.strip(), evaluations)


def _of_each(evaluation: Evaluation, labels: Iterable[int] = LABELS) -> tuple[Evaluation, ...]:
    """The same with so many labels."""
    return tuple(
        Evaluation(
            evaluation.protocols,
            f"{evaluation.flags} --labels-per-class {LABELS[each][0]}".strip(),
            "-".join(filter(None, (evaluation.name, str(each)))),
        )
        for each in labels
    )


def _without_labels(name: str, seed: int, flags: str, evaluations: tuple[Evaluation, ...]) -> Run:
    """It sees no label, so that one run serves all numbers of them."""
    train = f"--preset cifar10-4000 --seed {seed} --method.positives 0 {flags}"
    return Run(f"{name}-seed{seed}", train.strip(), evaluations)


def _better_base(length: str, flags: str, evaluations: tuple[Evaluation, ...], seed: int = 0) -> Run:
    """ReLICv2 with two views is weak where they are compared with themselves, too."""
    name = f"relicv2-different-views-{length}"
    return _without_labels(name, seed, f"{flags} {DIFFERENT_VIEWS}", evaluations)
