"""Values of a configuration or an evaluation as the words of a command."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from semppl.protocols.settings import EvaluateFlags

# of the machine, of where files lie or of the occasion: another person has others
_OWN: Final = frozenset(
    {
        *("runs", "device", "workers", "cache", "overwrite", "compare", "debug", "checkpoint"),
        *("data", "table", "test", "root", "data_root"),
    }
)


def changed_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags of an evaluation that are not as they are by default; one that a version did not know, was."""
    defaults = json.loads(json.dumps(asdict(EvaluateFlags()), default=str))  # tuples are lists in files
    return {
        name: flags[name]
        for name, value in defaults.items()
        if name not in _OWN and name in flags and flags[name] != value
    }


def as_words(name: str, value: object) -> list[str]:
    """`--method.minimum-votes 3`, `--views.no-colour`; several values follow each other."""
    room, _, last = name.replace("_", "-").rpartition(".")
    prefix = f"--{room}." if room else "--"
    if isinstance(value, bool):
        return [f"{prefix}{'' if value else 'no-'}{last}"]
    values = value if isinstance(value, list | tuple) else [value]
    return [f"{prefix}{last}", *map(_word, values)]


def _word(value: object) -> str:
    """Numbers as people write them."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
