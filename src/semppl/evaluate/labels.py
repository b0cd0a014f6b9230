"""How far the pseudo-labels can be trusted, by the number of ballots that agree."""

from collections.abc import Sequence
from typing import NamedTuple


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
