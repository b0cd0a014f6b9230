"""How far the pseudo-labels can be trusted, by the number of ballots that agree. No torch here."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Trust(NamedTuple):
    """Pseudo-labels with at least `votes` ballots for the winner."""

    votes: int
    precision: float
    """Right among those; nan if there are none."""
    recall: float
    """Right among those, of all unlabelled images."""
    coverage: float
    """Those, of all unlabelled images."""


def trust_by_votes(right_by_votes: Sequence[int], known_by_votes: Sequence[int]) -> list[Trust]:
    """One line for each threshold from 1 to the number of ballots (paper, figure on precision and recall)."""
    everything = sum(known_by_votes)
    lines = []
    for votes in range(1, len(known_by_votes)):
        right, known = sum(right_by_votes[votes:]), sum(known_by_votes[votes:])
        precision = right / known if known else float("nan")
        share = max(everything, 1)
        lines.append(Trust(votes, precision, right / share, known / share))
    return lines


def shown_thresholds(ballots: int, most: int = 5) -> list[int]:
    """A few from 1 to all, evenly spread."""
    if ballots <= most:
        return list(range(1, ballots + 1))
    return sorted({round(1 + i * (ballots - 1) / (most - 1)) for i in range(most)})


def counts_at_the_end(rows: Sequence[Mapping[str, Any]], steps: int) -> tuple[list[int], list[int]]:
    """Right and known pseudo-labels by votes, added up over the lines of metrics of the last `steps` steps;
    empty where no truth is known.
    """
    told = [row for row in rows if "pseudo/right_by_votes" in row]
    last = [row for row in told if row["step"] > told[-1]["step"] - steps]
    right, known = (
        [sum(column) for column in zip(*(row[key] for row in last), strict=True)]
        for key in ("pseudo/right_by_votes", "pseudo/known_by_votes")
    )
    return right, known
