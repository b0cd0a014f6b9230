"""Which objective a configuration asks for."""

from collections.abc import Callable, Mapping
from typing import Final

from semppl.config import MethodConfig, required
from semppl.core.errors import choose
from semppl.method.objective import BYOL, Objective, ReLICv2, SimCLR


def uses_queue(method: MethodConfig) -> bool:
    """α = 0 or no positives is the base objective alone: nothing to vote for."""
    return method.positives > 0 and method.alpha > 0


def build_objective(method: MethodConfig) -> Objective:
    """By name."""
    return choose(OBJECTIVES, method.objective, "objective")(method)


def _relicv2(method: MethodConfig) -> Objective:
    return ReLICv2(
        temperature=method.temperature,
        contrast_scale=required(method.contrast_scale),
        invariance_scale=required(method.invariance_scale),
        alpha=method.alpha,
        stop_gradient=method.stop_gradient,
        semantic_partner=method.semantic_partner if uses_queue(method) else "none",
        small_partner=method.small_partner,
        same_view=required(method.same_view),
        divide_by_positives=method.divide_by_positives,
    )


def _simclr(method: MethodConfig) -> Objective:
    return SimCLR(
        temperature=method.temperature,
        alpha=method.alpha,
        same_view=required(method.same_view),
        divide_by_positives=method.divide_by_positives,
    )


def _byol(method: MethodConfig) -> Objective:
    return BYOL(
        alpha=method.alpha,
        same_view=required(method.same_view),
        divide_by_positives=method.divide_by_positives,
    )


OBJECTIVES: Final[Mapping[str, Callable[[MethodConfig], Objective]]] = {
    "relicv2": _relicv2,
    "simclr": _simclr,
    "byol": _byol,
}
