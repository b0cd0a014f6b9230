"""Settings that a run directory keeps as YAML, read with the file's name in what is said of it."""

from collections.abc import Mapping
from typing import Any

import yaml

from semppl.core.errors import UserError


def stored_mapping(text: str, name: str) -> Mapping[str, Any]:
    """The content of a file; one that was cut or edited badly is refused by its name."""
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" (line {mark.line + 1})"
        raise UserError(f"{name} is no valid YAML{where}: restore it, or start a new run") from error
    if not isinstance(raw, Mapping):
        raise UserError(f"{name} is not a YAML mapping: restore it, or start a new run")
    return raw
