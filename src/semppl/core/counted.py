"""Counts with their nouns: 1 image, 2 images. No torch here."""

import re
from typing import Final

_NOUN: Final = re.compile(r"(?<=\d )(\w+?)(?:\(s\)|(?<=ss)es|(?<=x)es|(?<!s)s)?(?!\w)")


def counted(count: int | str, noun: str, plural: str = "") -> str:
    """One is one as it is written: a number with a form of its own (1.5, 0.1) comes as text."""
    said = count if isinstance(count, str) else f"{count:,}"
    return f"{said} {noun if said == '1' else plural or f'{noun}s'}"


def without_endings(text: str) -> str:
    """Words to compare with others: without the endings of what is counted, for 1 epochs and 1 seed(s) of
    earlier results are 1 epoch and 1 seed.
    """
    return _NOUN.sub(r"\1", text)
