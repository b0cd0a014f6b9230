"""Settings that a run directory keeps as YAML, read with the file's name in what is said of it."""

from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, Final, TypeVar, get_type_hints

import yaml
from typeguard import CollectionCheckStrategy, TypeCheckError, check_type

from semppl.core.errors import UserError

C = TypeVar("C")

_WHAT_TO_DO: Final = "restore it, or start a new run"


def stored_text(file: Path) -> str:
    """Of a file that is there."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is no text: {_WHAT_TO_DO}") from error


def stored_mapping(text: str, name: str) -> Mapping[str, Any]:
    """The content of a file; one that was cut or edited badly is refused by its name."""
    try:
        raw = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # a date of no calendar is a ValueError
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" (line {mark.line + 1})"
        raise UserError(f"{name} is no valid YAML{where}: {_WHAT_TO_DO}") from error
    if not isinstance(raw, Mapping):
        raise UserError(f"{name} is not a YAML mapping: {_WHAT_TO_DO}")
    return raw


def load(cls: type[C], raw: Mapping[str, Any], name: str) -> C:
    """A nested dataclass from nested mappings, strictly."""
    if not isinstance(raw, Mapping):
        raise UserError(f"{name}: {cls.__name__} is {raw!r}: it must be a mapping")
    hints = get_type_hints(cls)
    if unknown := raw.keys() - hints.keys():
        raise UserError(
            f"{name}: unknown {cls.__name__} keys {sorted(unknown, key=str)}: known are {sorted(hints)}"
        )
    return cls(
        **{
            key: load(hints[key], value, name)
            if is_dataclass(hints[key])
            else _checked(_frozen(value), hints[key], f"{name}: {key}")
            for key, value in raw.items()
        }
    )


def _frozen(value: Any) -> Any:
    """YAML knows lists alone."""
    return tuple(value) if isinstance(value, list) else value


def _checked(value: Any, hint: Any, name: str) -> Any:
    """Refuse a value of another type, which would fail far from here: `1e-4` is a word to YAML, which wants
    `1.0e-4`.
    """
    try:
        return check_type(value, hint, collection_check_strategy=CollectionCheckStrategy.ALL_ITEMS)
    except TypeCheckError as error:
        kind = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
        raise UserError(f"{name} is {value!r}: it must be of type {kind}") from error
