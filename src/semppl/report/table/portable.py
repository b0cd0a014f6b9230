"""Files of a run as they mean something elsewhere: without folders and the kernel of one machine."""

import json
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import yaml

from semppl.protocols.results import result_text


def portable(value: object) -> object:
    """Of a file that lies elsewhere on another machine, the name alone; a checkpoint's with that of its run,
    without which it says little.
    """
    if not isinstance(value, str):
        return value
    for path in (PurePosixPath(value), PureWindowsPath(value)):
        if path.is_absolute() and path.name:
            run = [path.parent.parent.name, "checkpoints"] if path.parent.name == "checkpoints" else []
            return "/".join(part for part in (*run, path.name) if part)
    return value


def portable_file(name: str, text: str) -> str:
    """One of a run's files by its name; one that is damaged, or says nothing of the machine, as it is."""
    read, change, write = _ways(name)
    try:
        content = read(text)
        changed = change(content)
        return text if changed == content else write(changed)
    except (ValueError, RecursionError, yaml.YAMLError):
        return text


def _ways(name: str) -> tuple[Callable[[str], Any], Callable[[Any], Any], Callable[[Any], str]]:
    """How to read it, what to change, how to write it as it was written."""
    if name.endswith(".yaml"):
        return yaml.safe_load, everywhere, _as_yaml
    if name == "environment.json":
        return json.loads, _machine, _as_json
    if name == "started_from.json":
        return json.loads, everywhere, _as_json
    if name.endswith(".json"):
        return json.loads, _result, result_text
    return str, str, str


def _as_yaml(content: object) -> str:
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def _as_json(content: object) -> str:
    return json.dumps(content, indent=2) + "\n"


def everywhere(content: Any) -> Any:
    """The same of all values in mappings and lists."""
    if isinstance(content, Mapping):
        return {key: everywhere(value) for key, value in content.items()}
    return [everywhere(value) for value in content] if isinstance(content, list) else portable(content)


def _machine(content: Any) -> Any:
    """Its system, of `Linux-6.1-…` the first word."""
    if not isinstance(content, Mapping) or not isinstance(content.get("platform"), str):
        return content
    return {**content, "platform": content["platform"].split("-")[0]}


def _result(content: Any) -> Any:
    """Paths are among the flags; elsewhere what looks like one may be a class."""
    if not isinstance(content, Mapping):
        return content
    changes = {"flags": everywhere, "environment": _machine}
    return {key: changes[key](value) if key in changes else value for key, value in content.items()}
