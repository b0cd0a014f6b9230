from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import tiny_config

from semppl.config import DataConfig, MethodConfig
from semppl.core.errors import UserError
from semppl.protocols.relabel import require_unseen, with_labels
from semppl.protocols.settings import EvaluateFlags

NONE = MethodConfig(positives=0)


def config(method=NONE, **data):
    return tiny_config("data.npz", seed=7, method=method, data=DataConfig(**data))


def asked(given, imported=False, **flags):
    data = with_labels(given, EvaluateFlags(**flags), imported=imported).data
    return data.labels, data.labels_per_class, data.label_fraction, data.split_seed


def test_without_flags_the_labels_are_the_runs_own():
    assert asked(config(labels_per_class=5, split_seed=3)) == (None, 5, None, 3)
    assert asked(config(labels_per_class=5)) == (None, 5, None, 7), "the seed of the run draws them"


def test_a_choice_replaces_the_runs_own_of_either_kind():
    assert asked(config(labels_per_class=5), label_fraction=0.1) == (None, None, 0.1, 7)
    assert asked(config(label_fraction=0.1), labels_per_class=5, split_seed=2) == (None, 5, None, 2)
    assert asked(config(), labels_per_class=5) == (None, 5, None, 7)


def test_a_seed_alone_draws_as_many_labels_as_the_run_had():
    assert asked(config(labels_per_class=5, split_seed=3), split_seed=0) == (None, 5, None, 0)
    with pytest.raises(UserError, match="--split-seed 1 draws labels: say how many"):
        asked(config(), split_seed=1)


def test_a_list_of_names_is_replaced_and_a_table_of_labels_is_not():
    assert asked(config(labels="few.txt"), labels_per_class=5)[0] is None
    assert asked(config(labels="few.txt"), imported=True, labels_per_class=5)[0] == "few.txt"
    assert asked(config(labels="all.csv"), labels_per_class=5)[0] == "all.csv"
    assert asked(config(labels="few.txt"))[0] == "few.txt"


def test_checkpoints_of_other_runs_may_have_seen_any_label(tmp_path):
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    mine, other = (tmp_path / name / "checkpoints" / "step-1.ckpt" for name in ("run", "other"))
    require_unseen(tmp_path / "run", config(), EvaluateFlags(checkpoint=mine))
    with pytest.raises(UserError, match=r"it is not of .*run, so what labels it saw is not known"):
        require_unseen(tmp_path / "run", config(), EvaluateFlags(checkpoint=other))


def test_weights_from_elsewhere_may_have_seen_any_label(tmp_path):
    require_unseen(tmp_path, config(), EvaluateFlags())
    (tmp_path / "started_from.json").write_text("{}")
    with pytest.raises(UserError, match=r"it started from other weights \(started_from.json\)"):
        require_unseen(tmp_path, config(), EvaluateFlags())
    require_unseen(tmp_path, config(), EvaluateFlags(protocol=("supervised",)))


@pytest.mark.parametrize(
    "given",
    [
        config(MethodConfig()),
        config(MethodConfig(labels="given")),
        config(MethodConfig(labels="oracle")),
        config(labelled_fraction=0.5),
        config(balance_labels=True),
    ],
)
def test_training_that_saw_labels_refuses_others_unless_its_weights_are_not_used(given):
    with pytest.raises(UserError, match=r"runs/x: its training saw labels.*--method.positives 0"):
        require_unseen(Path("runs/x"), given, EvaluateFlags(protocol=("linear", "supervised")))
    require_unseen(Path("runs/x"), given, EvaluateFlags(protocol=("supervised",)))


@pytest.mark.parametrize("method", [NONE, MethodConfig(alpha=0.0), replace(NONE, objective="byol")])
def test_training_without_labels_allows_any(method):
    require_unseen(Path("runs/x"), config(method, validation=0.0), EvaluateFlags())


def test_labels_that_are_held_out_do_not_become_training():
    with pytest.raises(UserError, match="holds labels out for validation"):
        require_unseen(Path("runs/x"), config(validation=0.2), EvaluateFlags(protocol=("supervised",)))
