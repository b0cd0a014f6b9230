"""Paths as they mean something on another machine: without the folders that only one has."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

import yaml

Parse = Callable[[str], Any]


def portable(value: object) -> object:
    """Of a file that lies elsewhere on another machine, the name alone; a checkpoint's with that of its run,
    without which it says little.
    """
    path = PurePath(value) if isinstance(value, str) else None
    if path is None or not path.is_absolute() or not path.name:
        return value
    run = [path.parent.parent.name, "checkpoints"] if path.parent.name == "checkpoints" else []
    return "/".join(part for part in (*run, path.name) if part)


def without_folders(text: str, parse: Parse, written: Callable[[str], str] = str) -> str:
    """A file with all its paths made portable, and else as it was; one that is damaged stays as it is.

    `written` says how a string stands in it.
    """
    try:
        found = {*_absolute(parse(text))}
    except (ValueError, RecursionError, yaml.YAMLError):
        return text
    for path in sorted(found, key=len, reverse=True):
        text = text.replace(written(path), written(str(portable(path))))
    return text


def _absolute(content: object) -> Iterator[str]:
    if isinstance(content, str):
        if portable(content) != content:
            yield content
    elif isinstance(content, Mapping):
        for value in content.values():
            yield from _absolute(value)
    elif isinstance(content, list):
        for value in content:
            yield from _absolute(value)
