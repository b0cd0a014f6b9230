"""How long the commands behind docs/results/cifar10.md take, by those that are done; for docs/cifar10.py."""

from dataclasses import dataclass
from statistics import median_high


@dataclass(frozen=True)
class Command:
    """One process; those of one kind take as long for each of their epochs. A training that goes on is of
    none, for it is not known how much of it is left.
    """

    arguments: list[str]
    """Of semppl."""
    kind: str
    epochs: int


class Pace:
    """How long commands took here, so that it can be said how long another one will take."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[int, list[float]]] = {}

    def note_(self, command: Command, seconds: float) -> None:
        """By kind and epochs."""
        if command.kind:
            self._seen.setdefault(command.kind, {}).setdefault(command.epochs, []).append(seconds)

    def expected(self, command: Command) -> float:
        """Seconds; nothing is known of a kind that has not been seen. The longest of its kind count, for
        their start matters least, and the middle one of them, for the first had to compile what others find.
        """
        if not (seen := self._seen.get(command.kind)):
            return 0.0
        longest = max(seen)
        return command.epochs * median_high(seen[longest]) / longest
