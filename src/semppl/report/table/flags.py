"""Values of a configuration or an evaluation as the words of a command."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from semppl.config import Config
from semppl.differing import flat
from semppl.protocols.settings import EvaluateFlags

# of the machine, of where files lie or of the occasion: another person has others
_OWN: Final = frozenset(
    {
        *("runs", "device", "workers", "cache", "overwrite", "compare", "debug", "checkpoint"),
        *("data", "table", "test", "root", "data_root"),
    }
)

# of the data, and without its name in front
_SHORT: Final = frozenset({"labels", "labels_per_class", "label_fraction", "validation", "test", "masks"})
_USUAL: Final = flat(asdict(Config()))


def changed_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags of an evaluation that are not as they are by default; one that a version did not know, was."""
    defaults = json.loads(json.dumps(asdict(EvaluateFlags()), default=str))  # tuples are lists in files
    return {
        name: flags[name]
        for name, value in defaults.items()
        if name not in _OWN and name in flags and flags[name] != value
    }


def setting_words(name: str, value: object) -> list[str]:
    """A value of the configuration, by its dotted name; a flag that may also be None takes True and False as
    its value.
    """
    room, _, last = name.rpartition(".")
    open_ = isinstance(value, bool) and not isinstance(_USUAL[name], bool)
    return as_words(last if room == "data" and last in _SHORT else name, str(value) if open_ else value)


def as_words(name: str, value: object) -> list[str]:
    """`--method.minimum-votes 3`, `--views.no-colour`; several values follow each other."""
    room, _, last = name.replace("_", "-").rpartition(".")
    prefix = f"--{room}." if room else "--"
    if isinstance(value, bool):
        return [f"{prefix}{'' if value else 'no-'}{last}"]
    values = value if isinstance(value, list | tuple) else [value]
    return [f"{prefix}{last}", *map(as_word, values)]


def as_word(value: object) -> str:
    """Numbers as people write them."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
