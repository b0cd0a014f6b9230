"""Charts of one run: what it minimises, what its pseudo-labels are worth, what its features are."""

from collections.abc import Sequence
from typing import Final

from semppl.core.trust import shown_thresholds
from semppl.report.collect import Run
from semppl.report.curves import Series, loss_terms, series
from semppl.report.figures import SCALE, Chart, lines, points, trend
from semppl.report.text import percent
from semppl.report.trust import TrustOverTime, coverage_over_training, right_share, trust_over_training

# below this spread of unit features nothing is told apart any more; 1 is an even spread
COLLAPSED: Final = 0.1


def training_charts(run: Run) -> list[Chart]:
    """Losses and the learning rate."""
    terms = {name.removeprefix("loss/"): series(run.metrics, name) for name in loss_terms(run.metrics)}
    rate = series(run.metrics, "lr")
    return _drawn(
        lines(
            "loss",
            "Loss",
            terms,
            summary=" ".join(trend(name, curve) for name, curve in list(terms.items())[:1])
            + " The terms are shown unweighed.",
            y="loss",
        ),
        lines(
            "rate",
            "Learning rate",
            {"learning rate": rate},
            summary=f"Highest: {max(rate.values, default=0):.3g}.",
            y="learning rate",
        ),
    )


def feature_charts(run: Run) -> list[Chart]:
    """k-NN on the labels, and whether features collapse."""
    near = series(run.metrics, "knn/leave_one_out")
    spread = series(run.metrics, "features/std")
    rank = series(run.metrics, "features/effective_rank")
    return _drawn(
        lines(
            "knn",
            "k-NN accuracy on the labelled images",
            {"leave-one-out k-NN": near},
            summary=trend(
                "Labelled images whose nearest other labelled images vote for their class", near, share=True
            ),
            y="per cent",
            share=True,
        ),
        lines(
            "spread",
            "Spread of the features",
            {"spread": spread},
            summary=f"1 is even, 0 is collapse. {trend('Spread', spread)}",
            y="spread",
        ),
        lines(
            "rank",
            "Effective rank of the features",
            {"effective rank": rank},
            summary=f"How many dimensions are in use. {trend('Rank', rank)}",
            y="dimensions",
        ),
    )


def collapse(run: Run) -> str:
    """A sentence on whether the features collapsed."""
    spread = series(run.metrics, "features/std")
    if not spread:
        return "Features were not looked at during training (probe_every), so collapse is not known."
    last = spread.values[-1]
    if last < COLLAPSED:
        return f"The features have collapsed: their spread is {last:.3f} at the end, where 1 is even."
    return (
        f"No collapse: the spread of the features is {last:.2f} at the end, where 1 is even and 0 collapse."
    )


def trust_charts(run: Run) -> list[Chart]:
    """Precision and recall by the ballots that agree, and what is won by asking for more of them."""
    trust = trust_over_training(run.metrics)
    if trust is None:
        return _drawn(_coverage(coverage_over_training(run.metrics)), _exchange(run, None))
    thresholds = shown_thresholds(trust.ballots)
    named = {votes: _at_least(votes, trust.ballots) for votes in thresholds}
    return _drawn(
        lines(
            "precision",
            "Precision of the pseudo-labels",
            {name: _curve(trust, votes, "precision") for votes, name in named.items()},
            summary="Right among the pseudo-labels with at least so many ballots for the winner. "
            + _all_of_them(run),
            y="per cent",
            scale=SCALE,
            share=True,
        ),
        lines(
            "recall",
            "Recall of the pseudo-labels",
            {name: _curve(trust, votes, "recall") for votes, name in named.items()},
            summary="Right and with at least so many ballots, among all images without a label.",
            y="per cent",
            scale=SCALE,
            share=True,
        ),
        _exchange(run, trust),
    )


def trust_table(run: Run) -> list[tuple[str, ...]]:
    """All thresholds in the last epoch: ballots, precision, recall, coverage."""
    trust = trust_over_training(run.metrics)
    return [
        (str(line.votes), percent(line.precision), percent(line.recall), percent(line.coverage))
        for line in (trust.at_the_end if trust else ())
    ]


def _all_of_them(run: Run) -> str:
    """From where to where, in words; the end is the last epoch, for a single line has few images."""
    right, curve = right_share(run.metrics), series(run.metrics, "pseudo/accuracy")
    if right is None:
        return ""
    start = f"{percent(curve.values[0])} at epoch {curve.epochs[0]:.1f}, " if len(curve.values) > 1 else ""
    return f"All pseudo-labels: {start}{right:.1f} % in the last epoch."


def _exchange(run: Run, trust: TrustOverTime | None) -> Chart | None:
    """The fewer labels are taken, the more of them are right."""
    curves: dict[str, Sequence[tuple[float, float, str]]] = {}
    if trust is not None:
        curves["ballots of the last epoch"] = [
            (line.coverage, line.precision, _at_least(line.votes, trust.ballots))
            for line in trust.at_the_end
            if line.coverage > 0
        ]
    if run.journey is not None:
        curves["votes of the finished model"] = [
            (coverage, precision, f"vote share ≥ {threshold:g}")
            for threshold, precision, coverage, _ in run.journey.votes
            if precision is not None and coverage > 0
        ]
    return points(
        "exchange",
        "Coverage and accuracy",
        curves,
        summary="What share of the images gets a label when more agreement is asked for, and how many of "
        "these labels are right, at the end of training.",
        x="coverage",
        y="accuracy",
    )


def _coverage(trust: TrustOverTime | None) -> Chart | None:
    if trust is None:
        return None
    thresholds = shown_thresholds(trust.ballots)
    return lines(
        "coverage",
        "Coverage of the pseudo-labels",
        {_at_least(votes, trust.ballots): _curve(trust, votes, "coverage") for votes in thresholds},
        summary="Images without a label whose winner has at least so many ballots. No label was withheld, so "
        "precision and recall are not known.",
        y="per cent",
        scale=SCALE,
        share=True,
    )


def _curve(trust: TrustOverTime, votes: int, what: str) -> Series:
    """Of one threshold; epochs at which no image reached it have no precision."""
    found = [
        (epoch, value)
        for epoch, line in zip(trust.epochs, trust.lines, strict=True)
        if (value := float(getattr(line[votes - 1], what))) == value
    ]
    return Series(tuple(epoch for epoch, _ in found), tuple(value for _, value in found))


def _at_least(votes: int, ballots: int) -> str:
    if votes < ballots:
        return f"≥ {votes} of {ballots} ballots"
    return "the one ballot" if ballots == 1 else f"all {ballots} ballots"


def _drawn(*charts: Chart | None) -> list[Chart]:
    return [chart for chart in charts if chart is not None]
