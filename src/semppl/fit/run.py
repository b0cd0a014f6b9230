"""The verb `fit`: the stages in order, each announced, each leaving its files in the run directory."""

import json
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, cast

import yaml
from rich.console import Console

from semppl.config import Config, files_of
from semppl.core.counted import counted
from semppl.core.elapsed import training_seconds
from semppl.core.errors import RunError, UserError
from semppl.core.rundir import RunDirectory, write_text
from semppl.deploy.model import Decides, Model
from semppl.evaluate.bank import ShareTrust
from semppl.fit.measure import Measured, measure
from semppl.fit.outcome import (
    NEXT,
    PREDICTIONS,
    SUSPICIOUS,
    export,
    final_model,
    predict_rest,
    show_advice,
    suggest,
    suspect,
)
from semppl.fit.plan import REST, planned
from semppl.fit.settings import SETTINGS, FitSettings
from semppl.fit.verdict import table, verdict
from semppl.protocols.desk import Desk
from semppl.report.run import write_report
from semppl.train.device import choose_device
from semppl.train.interrupt import Interrupted
from semppl.train.prepare import announce_data, load_for, resolved_for
from semppl.train.pretrain import pretrain
from semppl.train.progress import print_table
from semppl.train.state import TrainState

VALIDATION = 0.2


def run_fit(
    config: Config,
    run: RunDirectory,
    settings: FitSettings,
    *,
    console: Console,
    resume: bool = False,
    overwrite: bool = False,
) -> None:
    """From images and labels to a result."""
    if not resume:
        run.require_free(overwrite=overwrite, given=files_of(config))
    with run.locked():
        _fit(config, run, settings, console, resume=resume, overwrite=overwrite)


def _fit(
    config: Config,
    run: RunDirectory,
    settings: FitSettings,
    console: Console,
    *,
    resume: bool,
    overwrite: bool,
) -> None:
    # where epochs were given, and so in a run that goes on, they decide how long it takes
    until = None if config.epochs else time.monotonic() + (1 - REST) * 60 * settings.minutes
    device = choose_device(config.device)
    if config.data.validation is None:
        config = replace(config, data=replace(config.data, validation=VALIDATION))
    dataset = load_for(config, device, console, run=run if resume else None)
    announce_data(dataset, console)
    if len(dataset.classes) < 2:
        classes = counted(len(dataset.classes), "class", "classes")
        raise UserError(f"{dataset.name}: labels of {classes}: at least two are needed")
    if not resume:
        config, choices = planned(config, dataset, device, settings.minutes)
        for line in choices:
            console.print(line, highlight=False, soft_wrap=True)
    hint = f"go on with `semppl fit --resume --out {run.quoted}`"
    state = pretrain(
        config,
        run,
        console=console,
        resume=resume,
        overwrite=overwrite,
        hint=hint,
        dataset=dataset,
        also={SETTINGS: yaml.safe_dump(asdict(settings))},
    )
    desk = Desk(resolved_for(config, dataset), dataset, device, console)
    try:
        _after(desk, state, run, settings, until)
    except KeyboardInterrupt as error:
        raise Interrupted(f"stopped after pre-training, which is kept: {hint}", signal.SIGINT) from error
    except BrokenPipeError:  # the reader of what we say left
        raise
    except OSError as error:
        what = f"{error.strerror or error}, {error.filename or run.path}"
        raise RunError(f"failed after pre-training, which is kept ({what}): {hint}") from error


def _after(
    desk: Desk, state: TrainState, run: RunDirectory, settings: FitSettings, until: float | None
) -> None:
    online = state.online
    seconds = pretraining_seconds(run, desk.config)
    found = measure(desk, online, seconds, settings, until)
    decides = cast(Decides, found.decides)
    _show(desk, found)
    scale = 1.0 if found.calibration is None else found.calibration.scale
    model = final_model(desk, online, decides, found.tuned, found.course, scale, found.strength)
    difference = export(model, run.model, desk)
    predicted = predict_rest(desk, model, run)
    lines = [f"model: {run.model} (read again: probabilities differ by at most {difference:.1e})"]
    advised: list[int] = []
    if predicted is not None:
        lines.append(f"a label for each of {counted(len(predicted[0]), 'image')}: {run.path / PREDICTIONS}")
        advised = suggest(desk, model, *predicted, run)
        lines.append(f"{counted(len(advised), 'image')} to label next: {run.path / NEXT}")
    suspects, confirmed = suspect(desk, online, run)
    lines.append(
        f"{counted(len(suspects), 'given label')} to look at again, outvoted by the others, whose votes "
        f"confirm {confirmed:.0%} of all: {run.path / SUSPICIOUS}"
    )
    show_advice(desk, [*advised, *suspects], run)
    words = verdict(found.rows, found.exam)
    _write(desk, run, state, found, words, model)
    if (page := write_report(run)) is not None:
        lines.append(f"all of it to look at: {page}")
    else:
        lines.append(f"no page to look at could be written: `semppl report {run.quoted}` says why")
    for line in (*lines, f"label other images with: semppl predict {run.quoted} FOLDER", words):
        desk.say(line)


def pretraining_seconds(run: RunDirectory, config: Config) -> float:
    """As its metrics say."""
    return training_seconds(run.read_metrics(), config.images_per_step)


def protocol(desk: Desk, found: Measured) -> str:
    """In words, for beside the numbers."""
    dataset = desk.dataset
    parts = [
        f"accuracy in per cent (95 % interval) on {found.exam.describe()}",
        f"{len(dataset.labelled_L)} labels for training, {len(dataset.validation_V)} for validation",
        "k-NN: cosine, weighted; linear: l2 logistic regression, penalty by cross-validation",
    ]
    if found.tuned is not None:
        rates = "chosen on the validation labels" if len(dataset.validation_V) else "not chosen"
        parts.append(f"fine-tuned from the projector's first layer, rates {rates}")
    if found.course is not None:
        parts.append(found.course.describe())
    if found.calibration is not None:
        parts.append(found.calibration.describe())
    if found.exam.kind == "validation":
        parts.append("choices were made on these same labels, so our figures are a little too good")
    return "; ".join(parts)


TRUST_COLUMNS = ("vote share, at least", "precision", "coverage", "labels")


def trust_rows(trust: Sequence[ShareTrust]) -> list[tuple[str, ...]]:
    """Precision of votes at each threshold; a line that no label reaches says so."""
    return [
        (
            f"{line.threshold:.2f}",
            "–" if not line.count else f"{100 * line.precision:.1f}",
            f"{100 * line.coverage:.1f}",
            str(line.count),
        )
        for line in trust
    ]


def _show(desk: Desk, found: Measured) -> None:
    columns = ("encoder", "classifier", "accuracy", "trained")
    print_table(desk.console, "Accuracy", columns, table(found.rows))
    desk.say(f"protocol: {protocol(desk, found)}")
    if found.trust:
        print_table(
            desk.console,
            "Votes of labelled images, on labels that did not vote",
            TRUST_COLUMNS,
            trust_rows(found.trust),
        )


def as_measured(found: Measured, model: Model) -> bool:
    """Whether the model is a network that was measured, so that it has not seen the validation labels."""
    tuned = None if found.tuned is None else found.tuned.model
    taught = None if found.course is None else found.course.kept
    return any(each is not None and model.network.encoder is each.encoder for each in (tuned, taught))


def _write(
    desk: Desk, run: RunDirectory, state: TrainState, found: Measured, words: str, model: Model
) -> None:
    content: dict[str, Any] = {
        "verdict": words,
        "protocol": protocol(desk, found),
        "exam": {"kind": found.exam.kind, "images": len(found.exam)},
        "rows": [row.as_json() for row in found.rows],
        "numbers": [asdict(row.number) for row in found.rows],
        "model_decides_by": found.decides,
        "model_has_seen_validation_labels": not as_measured(found, model),
        "classes": list(desk.dataset.classes),
        "confusion": found.confusion,
        "finetuning": None if found.tuned is None else asdict(found.tuned.how),
        "consistency": None if found.course is None else found.course.as_json(),
        "calibration": None if found.calibration is None else found.calibration._asdict(),
        "votes": [
            {**line._asdict(), "precision": line.precision if line.count else None} for line in found.trust
        ],
        "labels": len(desk.dataset.labelled_L),
        "validation_labels": len(desk.dataset.validation_V),
        "split_sha256": run.split_sha256.read_text().split()[0],
        "step": state.step,
        "seed": desk.config.seed,
        "environment": json.loads(run.environment.read_text()),
    }
    run.evaluations.mkdir(exist_ok=True)
    write_text(run.evaluations / "fit.json", json.dumps(content, indent=1) + "\n")
