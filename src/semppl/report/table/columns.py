"""Which column an evaluation belongs to: its protocol, and the flags that make it another one."""

from collections.abc import Mapping
from typing import Any, Final

from semppl.report.table.flags import as_words, changed_flags

SUPERVISED: Final = "supervised"
_NAMES: Final = {
    "knn": "k-NN",
    "linear": "linear",
    "linear-sgd": "linear by SGD",
    "finetune": "fine-tuned",
    SUPERVISED: "fine-tuned",
}
FINE_TUNED: Final = _NAMES["finetune"]
# flags that only some protocols look at
_CONCERNS: Final = {
    "k": ("knn",),
    "temperature": ("knn",),
    "epochs": ("linear-sgd", "finetune", SUPERVISED),
    "sweep": ("finetune",),
    "confident": ("finetune",),
    "consistency": ("finetune", SUPERVISED),
    "sure": ("finetune", SUPERVISED),
    "validation": ("finetune",),
    "network": ("knn", "linear", "linear-sgd", "finetune"),
}
# which results there are, whose labels they have (the section) and how many seeds: no other way to measure
_OTHER: Final = frozenset(
    {
        *("protocol", "corrupt", "sets", "most", "name", "seed", "seeds", "precision"),
        *("labels", "labels_per_class", "label_fraction", "split_seed"),
    }
)


def protocol_of(file: str, flags: Mapping[str, Any]) -> str | None:
    """By the name of its file, PROTOCOL-NAME.json; None where no column is for it."""
    name = flags.get("name")
    if isinstance(name, str):
        exact = [each for each in _NAMES if file == (f"{each}-{name}" if name else each)]
        return exact[0] if exact else None
    fitting = [each for each in _NAMES if file == each or file.startswith(f"{each}-")]
    return max(fitting, key=len) if fitting else None


def variant(protocol: str, flags: Mapping[str, Any]) -> list[str]:
    """The flags that make it another way to measure."""
    found = changed_flags(flags)
    if not found.get("consistency"):
        found.pop("sure", None)
    return [
        word
        for name, value in found.items()
        if name not in _OTHER and protocol in _CONCERNS.get(name, (protocol,))
        for word in as_words(name, value)
    ]


def column_of(protocol: str, flags: Mapping[str, Any]) -> str:
    """The head of the column; networks that were trained from random weights stand with those that were
    fine-tuned in the same way, or with the fine-tuned ones, whose weights were all trained, too.
    """
    alone = protocol == SUPERVISED and not flags.get("consistency")
    words = [] if alone else variant(protocol, flags)
    return f"{_NAMES[protocol]} with `{' '.join(words)}`" if words else _NAMES[protocol]


def in_order(columns: set[str]) -> list[str]:
    """As the protocols are listed, the usual way first."""
    heads = list(_NAMES.values())
    return sorted(columns, key=lambda each: (heads.index(each.split(" with ")[0]), len(each), each))
