"""What a run is called in a table of results, where it stands there, and what makes another row."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any, Final, Literal

from semppl.config import Config
from semppl.core.rundir import RunDirectory
from semppl.differing import flat
from semppl.report.collect import Run
from semppl.report.gaps import Damaged
from semppl.report.lenient import finite, read_json
from semppl.report.seeds import decisive

Kind = Literal["supervised", "scratch", "base", "semantic", "given", "oracle"]
_KINDS: Final = ("supervised", "scratch", "base", "semantic", "given", "oracle")
_BASES: Final = {"simclr": "SimCLR", "byol": "BYOL", "relicv2": "ReLICv2"}
_DEFAULTS: Final = flat(asdict(Config()))
INIT_FROM: Final = "init-from"
"""A setting that no configuration has: whose weights the run began with."""
OF_LABELS: Final = frozenset(
    {
        *("data.labels", "data.labels_per_class", "data.label_fraction", "data.validation"),
        *("method.positives", "method.labels", "method.minimum_votes", "method.vote_power", "method.k"),
        *("method.voting", "method.tie", "method.queue_capacity", "method.queue_initial_labels"),
        *("method.enqueue", "method.alpha", "method.semantic_partner", "method.divide_by_positives"),
    }
)
"""What nothing depends on where no label reaches training."""
NETWORK: Final = frozenset(
    {
        *("net.encoder", "net.sk", "net.width", "net.stem", "net.padding", "net.last_scale", "net.mean"),
        *("net.std", "views.large_size", "views.recipe", "views.min_area", "views.flip"),
        "views.crop_probability",
    }
)
"""What a training from random weights takes of a run."""
# a row is of one section, which has the data
_ELSEWHERE: Final = frozenset({"source", "seed", "data.split_seed"})


@dataclass(frozen=True)
class Method:
    """The first column of a row."""

    name: str
    kind: Kind
    objective: str = ""

    @property
    def order(self) -> tuple[int, int]:
        """Of the rows of a section."""
        bases = list(_BASES)
        base = bases.index(self.objective) if self.objective in bases else len(bases)
        return _KINDS.index(self.kind), base

    @property
    def pretrained(self) -> bool:
        """Whether anything is asked of a run's weights."""
        return self.kind not in ("supervised", "scratch")

    @property
    def saw_labels(self) -> bool:
        """Whether labels reached its pre-training."""
        return self.kind in ("semantic", "given", "oracle")


SUPERVISED: Final = Method("supervised only", "supervised")
SCRATCH: Final = Method("no pre-training", "scratch")
"""On all images, as those are fine-tuned that are pre-trained."""


def all_values(config: Mapping[str, Any]) -> dict[str, Any]:
    """Of a configuration by dotted name; what an older version did not write had its default."""
    return {**_DEFAULTS, **flat(config)}


def method_of(config: Mapping[str, Any]) -> Method:
    """In words; no positives, or none that count, is the base objective alone."""
    values = all_values(config)
    objective = str(values["method.objective"])
    base = _BASES.get(objective, objective)
    if finite(values["method.positives"]) == 0 or finite(values["method.alpha"]) == 0:
        return Method(base, "base", objective)
    name = "SemPPL" if objective == "relicv2" else f"SemPPL on {base}"
    if values["method.labels"] == "given":
        return Method(f"{name} − pseudo-labels", "given", objective)
    if values["method.labels"] == "oracle":
        return Method(f"{name}, oracle labels", "oracle", objective)
    return Method(name, "semantic", objective)


def settings_of(run: Run, method: Method) -> dict[str, str]:
    """What makes another row: all that decides on the numbers, but the seeds; of a network that was trained
    from random weights the network and its views.
    """
    values = decisive(run)
    left_out = _ELSEWHERE if method.saw_labels else _ELSEWHERE | OF_LABELS
    if not method.pretrained:
        return {name: value for name, value in values.items() if name in NETWORK}
    kept = {name: value for name, value in values.items() if name not in left_out}
    return kept | {INIT_FROM: _weights(origin_of(run))}


def origin_of(run: Run) -> str | None:
    """The path of the weights it began with, RUN where its file is damaged; None where they were random."""
    file, origin = RunDirectory(run.path).started_from, dict[str, Any]()
    if not file.is_file():
        return None
    with suppress(Damaged):
        origin = read_json(file)
    return str(origin.get("path", "RUN"))


def _weights(origin: str | None) -> str:
    """The name alone, for folders are others elsewhere; a checkpoint's says little without its run."""
    if origin is None:
        return "none"
    path = PurePath(origin)
    run = path.parent.parent.name if path.parent.name == "checkpoints" else ""
    return f"{run}/{path.name}" if run else path.name
