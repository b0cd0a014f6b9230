"""Which values of a configuration decide on what is computed, and where two differ. No torch here."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from typing import Any, Final

from semppl.config import Config

# what may differ when a run goes on: where it runs, where the data lies (its content is compared), how often
# it speaks
FREE: Final = frozenset(
    {
        "source",
        "device",
        "precision",
        "speed",
        "timeout",
        "log_every",
        "probe_every",
        "sheet_every",
        "checkpoint_every",
        "keep_checkpoints",
        "data.labels",
        "data.test",
        "data.root",
        "data.workers",
        "data.allow_unreadable",
    }
)


def differences(one: Config, other: Config) -> list[str]:
    """Dotted names of the values that must not differ, and do."""
    others = decisive(other)
    return [name for name, value in decisive(one).items() if others[name] != value]


def decisive(config: Config) -> dict[str, object]:
    """The values that decide on what is computed, by dotted name."""
    values = {name: value for name, value in flat(asdict(config)).items() if name not in FREE}
    # runs from before there was the choice do not say that they made none
    values["data.balance_labels"] = bool(config.data.balance_labels)
    # where masks lie may differ, whether there are any may not
    elsewhere = config.data.masks not in (None, "none", "own")
    return values | {"data.masks": "a folder"} if elsewhere else values


def digest_of(config: Config) -> str:
    """The same for what computes the same, whatever the seeds."""
    values = {key: value for key, value in decisive(config).items() if key not in ("seed", "data.split_seed")}
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """All values by dotted name."""
    values: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            values |= flat(value, f"{prefix}{name}.")
        else:
            values[f"{prefix}{name}"] = value
    return values
