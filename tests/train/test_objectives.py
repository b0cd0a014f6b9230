import pytest

from semppl.config import MethodConfig
from semppl.core.errors import UserError
from semppl.method.objective import BYOL, ReLICv2, SimCLR
from semppl.train.objectives import build_objective, uses_queue

RESOLVED = {"contrast_scale": 0.3, "invariance_scale": 5.0, "same_view": True}


@pytest.mark.parametrize(("name", "kind"), [("relicv2", ReLICv2), ("simclr", SimCLR), ("byol", BYOL)])
def test_an_objective_is_chosen_by_name_and_told_all_it_needs(name, kind):
    objective = build_objective(MethodConfig(objective=name, alpha=0.7, **RESOLVED))
    assert type(objective) is kind
    assert (objective.alpha, objective.same_view) == (0.7, True)


def test_without_positives_there_is_no_semantic_penalty():
    method = MethodConfig(positives=0, semantic_partner="swap", **RESOLVED)
    assert build_objective(method).semantic_partner == "none"
    assert not uses_queue(method)
    assert not uses_queue(MethodConfig(alpha=0.0))
    assert uses_queue(MethodConfig())


def test_an_unknown_name_is_answered_with_those_that_exist():
    with pytest.raises(UserError, match=r"'vicreg': choose from byol, relicv2, simclr"):
        build_objective(MethodConfig(objective="vicreg", **RESOLVED))
