"""Small tables about a run: what it was, what it cost, what it was told, where it ran."""

import json
import statistics
from collections.abc import Mapping
from typing import Any, Final

from semppl.core import elapsed
from semppl.differing import flat
from semppl.report.collect import Run
from semppl.report.curves import epoch_of
from semppl.report.lenient import finite, kept_mark
from semppl.report.text import bytes_of, duration, percent

_SPEED: Final = "images_per_second"

Facts = list[tuple[str, str]]


def facts(run: Run) -> Facts:
    """For the top of the page."""
    found: Facts = []
    if source := run.config.get("source"):
        found.append(("data", str(source)))
    if run.roles:
        images = sum(run.roles.values())
        labelled = run.roles.get("labelled", 0)
        found.append(("images", f"{images:,}, {labelled:,} with a label to learn from"))
        found += [
            (f"for {role}", f"{run.roles[role]:,}") for role in ("validation", "test") if run.roles.get(role)
        ]
    if run.classes:
        found.append(("classes", f"{len(run.classes):,}"))
    if run.metrics and (epoch := epoch_of(run.metrics[-1])) is not None:
        asked = finite(run.config.get("epochs"))
        found.append(("epochs", f"{epoch:.1f}" + ("" if asked is None else f" of {asked:g}")))
    if run.seed is not None:
        found.append(("seed", str(run.seed)))
    return found


def cost(run: Run) -> Facts:
    """Time, speed and disk; all from the files of the run."""
    found: Facts = []
    seconds, rate = training_seconds(run), _median(run, _SPEED)
    if seconds is not None and rate is not None:
        found.append(("pre-training", f"about {duration(seconds)}"))
        found.append(("speed", f"{rate:,.0f} images/s (median)"))
    if (wait := _median(run, "data_wait")) is not None:
        found.append(("waiting for data", percent(wait)))
    if run.metrics and (skipped := finite(run.metrics[-1].get("skipped_steps"))):
        found.append(("steps left out (not finite)", f"{skipped:.0f}"))
    for row in run.journey.rows if run.journey else ():
        if row.seconds is not None and row.way not in ("linear", "k-NN"):
            found.append((f"{row.name}, {row.way}", duration(row.seconds)))
    checkpoints = sum(file.stat().st_size for file in run.path.glob("checkpoints/*.ckpt") if file.is_file())
    if checkpoints:
        found.append(("checkpoints on disk", bytes_of(checkpoints)))
    if device := run.environment.get("device"):
        found.append(("device", str(device)))
    return found


def training_seconds(run: Run) -> float | None:
    """As its metrics say, if they do; a copy, which has some of their lines, was told when it was made. One
    of an earlier version was not, and knows it about.
    """
    if (told := finite(kept_mark(run.path).get("training_seconds"))) is not None:
        return told
    batch = finite(run.config.get("batch_size"))
    rows = ({"step": int(row["step"]), _SPEED: finite(row.get(_SPEED))} for row in run.metrics)
    return elapsed.training_seconds(rows, batch or 0.0) or None


def _median(run: Run, key: str) -> float | None:
    values = [value for row in run.metrics if (value := finite(row.get(key))) is not None]
    return statistics.median(values) if values else None


def settings_table(values: Mapping[str, Any]) -> Facts:
    """A nested mapping by dotted names."""
    return [(name, _said(value)) for name, value in flat(values).items()]


def _said(value: object) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else json.dumps(value, default=str)
