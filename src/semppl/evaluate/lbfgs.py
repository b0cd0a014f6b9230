"""L-BFGS for many smooth convex problems at once.

Shapes: S problems, A of them at work, D parameters of a problem, M pairs that are remembered.

All problems are evaluated together and each goes its own way: it has its own step length, takes a step when
its own value falls, and rests when its own gradient is small. The inverse Hessian is used in its compact form
(Byrd, Nocedal and Schnabel 1994), two batched products with all that is remembered; the usual two loops would
be 4M passes over vectors, each too short to fill a machine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import torch
from torch import Tensor

_PAIRS: Final = 10
# of the decrease that the slope promises, what a step must bring; and of the slope, what may be left beyond
_ENOUGH: Final = 1e-4
_LEVEL: Final = 0.9
# a step this much shorter than the whole finds nothing but rounding
_SHORTEST: Final = 1e-10
# problems at rest are dropped when no larger share than this is at work
_AWAKE: Final = 0.7


class Evaluation(NamedTuple):
    """Of problems at a point each."""

    value_A: Tensor
    slope_AD: Tensor
    size_A: Tensor
    """Of the gradient, in whatever measure the tolerance is meant."""


Objective = Callable[[Tensor, Tensor], Evaluation]
"""Points [A, D] and which problems [A] they belong to → their evaluation."""


class Minimum(NamedTuple):
    """Where each problem came to rest."""

    point_SD: Tensor
    iterations_S: Tensor
    """Evaluations after the first."""
    converged_S: Tensor
    """Whether the gradient is within the tolerance; otherwise rounding or the limit ended it."""


@dataclass
class _Path:
    """How far the problems at work have come."""

    which_A: Tensor
    point_AD: Tensor
    at: Evaluation
    toward_AD: Tensor
    length_A: Tensor
    gain_A: Tensor
    """The inverse Hessian where nothing is remembered."""
    memory_AKD: Tensor
    """K = 2M: steps, then the changes of slope that came with them; zeros for a step that was not taken."""
    products_AKK: Tensor

    def keep_(self, kept_A: Tensor) -> None:
        """Forget all other problems."""
        self.at = Evaluation(*(part[kept_A] for part in self.at))
        for name in ("which_A", "point_AD", "toward_AD", "length_A", "gain_A", "memory_AKD", "products_AKK"):
            setattr(self, name, getattr(self, name)[kept_A])


@torch.no_grad()
def minimise(
    objective: Objective, start_SD: Tensor, *, tolerance: float, max_iterations: int = 1000
) -> Minimum:
    """Minimise each problem from its start, until the size of its gradient is at most the tolerance."""
    (count, dim), device = start_SD.shape, start_SD.device
    which_S = torch.arange(count, device=device)
    found = Minimum(start_SD.clone(), torch.zeros_like(which_S), torch.zeros_like(which_S, dtype=torch.bool))
    at = objective(start_SD, which_S)
    path = _Path(
        which_A=which_S,
        point_AD=start_SD.clone(),
        at=at,
        toward_AD=-at.slope_AD,
        length_A=start_SD.new_ones(count),
        gain_A=start_SD.new_ones(count),
        memory_AKD=start_SD.new_zeros(count, 2 * _PAIRS, dim),
        products_AKK=start_SD.new_zeros(count, 2 * _PAIRS, 2 * _PAIRS),
    )
    for iteration in range(max_iterations):
        awake_A = (path.at.size_A > tolerance) & (path.length_A > _SHORTEST)
        if awake_A.float().mean() <= _AWAKE:
            _note_(found, path, tolerance)
            path.keep_(awake_A)
            awake_A = awake_A[awake_A]
        if not len(awake_A):
            break
        found.iterations_S[path.which_A] += awake_A
        taken_A = _try_(path, objective, awake_A, iteration % _PAIRS)
        _turn_(path, taken_A, iteration % _PAIRS)
    _note_(found, path, tolerance)
    return found


def _note_(found: Minimum, path: _Path, tolerance: float) -> None:
    found.point_SD[path.which_A] = path.point_AD
    found.converged_S[path.which_A] = path.at.size_A <= tolerance


def _try_(path: _Path, objective: Objective, awake_A: Tensor, slot: int) -> Tensor:
    """Take a step of each problem, remember it and what it changed, or shorten it; which were taken."""
    step_AD = path.length_A[:, None] * path.toward_AD
    there = objective(path.point_AD + step_AD, path.which_A)
    promised_A = (path.at.slope_AD * step_AD).sum(1)
    gained_A = (there.value_A - path.at.value_A).to(promised_A)
    # near the minimum differences of values are all rounding; there slopes decide
    noise_A = 4 * torch.finfo(step_AD.dtype).eps * path.at.value_A.abs().to(promised_A)
    level_A = (gained_A <= noise_A) & ((there.slope_AD * step_AD).sum(1) <= -_LEVEL * promised_A)
    taken_A = awake_A & (level_A | (gained_A <= _ENOUGH * promised_A))
    # the lowest point of the parabola through what is known
    parabola_A = (0.5 * path.length_A * promised_A / (promised_A - gained_A)).nan_to_num(0)
    shorter_A = parabola_A.clamp(0.1 * path.length_A, 0.5 * path.length_A).where(awake_A, path.length_A)
    path.length_A = torch.where(taken_A, 1, shorter_A)
    taken_A1 = taken_A[:, None]
    path.point_AD += step_AD.where(taken_A1, 0)
    change_AD = there.slope_AD - path.at.slope_AD
    # rounding may hide that a convex function curves upwards
    curved_A1 = taken_A1 & ((step_AD * change_AD).sum(1, keepdim=True) > 0)
    path.memory_AKD[:, slot] = step_AD.where(curved_A1, 0)
    path.memory_AKD[:, _PAIRS + slot] = change_AD.where(curved_A1, 0)
    path.at = Evaluation(
        there.value_A.where(taken_A, path.at.value_A),
        there.slope_AD.where(taken_A1, path.at.slope_AD),
        there.size_A.where(taken_A, path.at.size_A),
    )
    return taken_A


def _turn_(path: _Path, taken_A: Tensor, slot: int) -> None:
    """New directions, −Hg, for problems that took a step, after which the slot has the youngest pair.

    With the steps in the columns of S, the changes of slope in those of Y, R the upper triangle of SᵀY, E its
    diagonal and γ the gain: Hg = γg + S·R⁻ᵀ((E + γYᵀY)u − γYᵀg) − γY·u, where u = R⁻¹Sᵀg. A pair of zeros has
    zeros in R; with a one on its diagonal, it adds nothing.
    """
    memory_AKD, products_AKK, youngest = path.memory_AKD, path.products_AKK, _PAIRS + slot
    news_A3D = torch.stack([memory_AKD[:, slot], memory_AKD[:, youngest], path.at.slope_AD], dim=1)
    products_AK3 = memory_AKD @ news_A3D.mT
    for place, new in ((slot, 0), (youngest, 1)):
        products_AKK[:, :, place] = products_AKK[:, place] = products_AK3[:, :, new]
    gain_A = products_AKK[:, slot, youngest] / products_AKK[:, youngest, youngest]
    path.gain_A = gain_A.where(gain_A > 0, path.gain_A)  # 0 / 0 is not
    gain_A11 = path.gain_A[:, None, None]
    steps_M = torch.arange(slot + 1 - _PAIRS, slot + 1, device=taken_A.device) % _PAIRS
    changes_M = steps_M + _PAIRS
    SY_AMM = products_AKK[:, steps_M[:, None], changes_M]
    YY_AMM = products_AKK[:, changes_M[:, None], changes_M]
    E_AM1 = SY_AMM.diagonal(dim1=1, dim2=2)[:, :, None]
    R_AMM = SY_AMM.triu() + torch.diag_embed((E_AM1.squeeze(2) <= 0).to(SY_AMM))
    u_AM1 = torch.linalg.solve_triangular(R_AMM, products_AK3[:, steps_M, 2:], upper=True)
    right_AM1 = E_AM1 * u_AM1 + gain_A11 * (YY_AMM @ u_AM1 - products_AK3[:, changes_M, 2:])
    v_AM1 = torch.linalg.solve_triangular(R_AMM.mT, right_AM1, upper=False)
    mix_AK1 = torch.zeros_like(products_AK3[:, :, :1])
    mix_AK1[:, steps_M], mix_AK1[:, changes_M] = v_AM1, -gain_A11 * u_AM1
    plain_AD = -path.gain_A[:, None] * path.at.slope_AD
    toward_AD = plain_AD - (mix_AK1.mT @ memory_AKD).squeeze(1)
    falls_A = (toward_AD * path.at.slope_AD).sum(1) < 0
    toward_AD = toward_AD.where(falls_A[:, None], plain_AD)
    path.toward_AD = toward_AD.where(taken_A[:, None], path.toward_AD)
