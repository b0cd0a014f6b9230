"""Linear transfer to the paper's eleven data sets. Shapes: N images of a part, F features, Y classes."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from torch import Tensor

from semppl.data.transfer import TRANSFER_NAMES, Part, Transfer
from semppl.evaluate.linear import LinearFit, fit_validated
from semppl.evaluate.metrics import measure_answers
from semppl.evaluate.sweep import PAPER_SWEEP, Labelled, tuned_sgd
from semppl.protocols.results import Number, Outcome
from semppl.protocols.scored import number_called
from semppl.protocols.subject import Subject
from semppl.train.progress import StageProgress
from semppl.views.whole import fitted_crop

# penalties of the default sweep, as BYOL's: 45 from 1e-6 to 1e5, for features of unit variance
PENALTIES: Final = tuple(10 ** (-6 + 11 * i / 44) for i in range(45))

_PROTOCOL: Final = (
    "transfer: frozen features of the middle square; settings chosen on validation images, fitted again on "
    "training and validation images together, tested once; "
)
_SWEEPS: Final = {
    "default": f"l2 logistic regression, {len(PENALTIES)} penalties",
    "paper": f"SGD, the paper's {len(PAPER_SWEEP):,} settings",
}


def transfer(subject: Subject) -> Outcome:
    """One number for each data set, by its own metric; images and labels of the run play no part."""
    flags = subject.flags
    numbers, details = list[Number](), dict[str, Any]()
    sets = subject.transfers
    if not flags.sets and (missing := set(TRANSFER_NAMES) - {data.name for data in sets}):
        subject.desk.say(
            f"not found, or damaged: {', '.join(name for name in TRANSFER_NAMES if name in missing)}"
        )
    for data in sets:
        subject.desk.say(
            f"{data.name}: {len(data.train):,} images to train on, {len(data.val):,} to choose, "
            f"{len(data.test):,} to test; {len(data.classes)} classes"
        )
        number, told = _transferred(subject, data)
        numbers.append(number)
        details[data.name] = told
    if len(numbers) > 1:
        mean = sum(number.value for number in numbers) / len(numbers)
        numbers.append(Number(f"mean over {len(details)} data sets", mean))
    return Outcome(
        protocol=_PROTOCOL + _SWEEPS[flags.sweep],
        numbers=numbers,
        settings={"sweep": flags.sweep, "seed": flags.seed},
        details=details,
    )


def _transferred(subject: Subject, data: Transfer) -> tuple[Number, Mapping[str, Any]]:
    features = partial(_features, subject, data.name)
    train = Labelled(features(data.train, "train"), data.train.labels_N)
    validation = Labelled(features(data.val, "val"), data.val.labels_N)
    fit, chosen = _fitted(subject, data, train, validation)
    metrics = measure_answers(
        fit.logits(features(data.test, "test")),
        data.test.labels_N,
        classes=len(data.classes),
        seed=subject.flags.seed,
    )
    told = {
        "metric": data.metric,
        "images": {role: len(part) for role, part in data.roles},
        "split_sha256": data.split_sha256,
        "chosen": chosen,
        "metrics": metrics.as_json(),
    }
    return number_called(metrics, data.metric, f"{data.name} ({data.metric})"), told


def _features(subject: Subject, name: str, part: Part, role: str) -> Tensor:
    desk = subject.desk
    prepare = partial(fitted_crop, desk.size)
    title = f"{name}: features, {role}"
    return desk.features(subject.online.encoder, part.images, title, prepare=prepare, prepared="fitted")


def _fitted(
    subject: Subject, data: Transfer, train: Labelled, validation: Labelled
) -> tuple[LinearFit, Mapping[str, Any]]:
    desk, classes, per_class = subject.desk, len(data.classes), data.metric != "top-1"
    if subject.flags.sweep == "default":
        fit, penalty, score = fit_validated(
            train, validation, PENALTIES, classes=classes, per_class=per_class, device=desk.device
        )
        return fit, {"penalty": penalty, "validation": 100 * score}
    updates = sum(setting.steps(setting.epochs, len(data.train)) for setting in PAPER_SWEEP)
    with StageProgress(desk.console, f"{data.name}: sweep", updates) as progress:
        layers, selection = tuned_sgd(
            train,
            validation,
            PAPER_SWEEP,
            classes=classes,
            seed=subject.flags.seed,
            per_class=per_class,
            device=desk.device,
            advance=lambda done, _: progress.advance(done),
        )
    score = float(selection.scores_S.max())
    fit = LinearFit(layers.weight_SYF[0].double(), layers.bias_SY[0].double())
    return fit, {**vars(selection.setting), "validation": 100 * score}
