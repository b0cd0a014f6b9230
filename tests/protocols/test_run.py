import io
import json
from contextlib import nullcontext
from dataclasses import replace

import pytest
from rich.console import Console
from tests.conftest import save_stripes, tiny_config
from tests.train.world import in_ranks

from semppl.config import DataConfig, MethodConfig
from semppl.core.errors import RunError, UserError
from semppl.core.rundir import RunDirectory
from semppl.protocols import run as run_module
from semppl.protocols.compare import compare
from semppl.protocols.run import TABLE, run_evaluate
from semppl.protocols.settings import PROTOCOLS, EvaluateFlags
from semppl.train.pretrain import pretrain


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=120)


def flags(**changes):
    return EvaluateFlags(**{"device": "cpu", "workers": 0, **changes})


def test_every_protocol_is_in_the_table():
    assert tuple(TABLE) == PROTOCOLS


def test_results_are_shown_kept_and_compared(trained, console):
    run_evaluate([trained.path], flags(name="x"), console)
    said = console.file.getvalue()
    assert "pets: knn" in said
    assert "protocol: linear: l2 logistic regression" in said
    content = json.loads((trained.evaluations / "linear-x.json").read_text())
    for key in ("checkpoint_sha256", "split_sha256", "environment", "settings", "labels", "test", "flags"):
        assert content[key], key
    split = trained.split_sha256.read_text().split()[0]
    assert content["labels"] == {"which": "given", "count": 15, "choosing": 3, "split_sha256": split}
    assert content["test"]["kind"] == "test"
    assert content["test"]["images"] == 30
    assert content["classes"] == ["cat", "dog", "owl"]
    assert content["unreadable_files"] == []
    assert content["details"]["metrics"]["per_class"]
    compare([trained.path], console)
    assert "linear-x" in console.file.getvalue()
    with pytest.raises(UserError, match="there already"):
        run_evaluate([trained.path], flags(name="x"), console)


def test_features_are_made_once(trained, console, monkeypatch):
    run_evaluate([trained.path], flags(name="y", protocol=("knn",)), console)
    made = sorted((trained.path / "features").iterdir())
    assert len(made) == 2
    monkeypatch.setattr(
        "semppl.protocols.desk.extract_features", lambda *_, **__: pytest.fail("made a second time")
    )
    run_evaluate([trained.path], flags(name="y", overwrite=True), console)
    assert sorted((trained.path / "features").iterdir()) == made


def test_bad_flags_are_refused_before_anything_is_read(tmp_path, console):
    with pytest.raises(UserError, match="--k is 0"):
        run_evaluate([tmp_path], flags(k=0), console)


def test_a_copy_for_tables_is_refused_even_where_its_weights_are_not_asked_for(tmp_path, console):
    run = RunDirectory(tmp_path)
    run.config.write_text("epochs: 1\n")
    run.kept.write_text("{}")
    with pytest.raises(UserError, match="small copy of a run"):
        run_evaluate([tmp_path], flags(protocol=("supervised",)), console)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["config.yaml", "kept.json"]


def test_all_that_was_given_is_checked_before_anything_is_measured(trained, tmp_path, console):
    asked = flags(name="z", protocol=("knn", "transfer"), sets=("nosuch",), root=tmp_path)
    with pytest.raises(UserError, match="unknown transfer set"):
        run_evaluate([trained.path], asked, console)
    with pytest.raises(UserError, match="holds no run"):
        run_evaluate([trained.path, tmp_path], flags(name="z"), console)
    assert not list(trained.evaluations.glob("*-z.json"))


def test_a_result_that_cannot_be_kept_is_shown_all_the_same(trained, console, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("semppl.protocols.results.write_text", full)
    with pytest.raises(RunError, match=r"knn-w.json cannot be written \(No space left on device\)"):
        run_evaluate([trained.path], flags(name="w", protocol=("knn",)), console)
    assert "top-1" in console.file.getvalue()


def test_outcomes_are_returned_to_those_who_call_it_as_a_library(trained, console):
    found = run_evaluate([trained.path], flags(name="v", protocol=("knn",)), console)
    assert found[trained.path]["knn"].numbers[0].name == "top-1"


def test_a_run_with_all_labels_is_fitted_and_fine_tuned_on_all(tmp_path, console):
    for label, name in enumerate(("cat", "dog")):
        save_stripes(tmp_path / "data" / "train" / name, [label] * 10, seed=label)
        save_stripes(tmp_path / "data" / "test" / name, [label] * 3, seed=5 + label)
    config = tiny_config(
        tmp_path / "data",
        data=DataConfig(label_fraction=1.0, workers=0),
        method=MethodConfig(positives=2, queue_capacity=20),
        batch_size=10,
        epochs=1.0,
    )
    pretrain(config, RunDirectory(tmp_path / "run"), console=console)
    found = run_evaluate([tmp_path / "run"], flags(protocol=("linear", "finetune"), epochs=1), console)
    for outcome in found[tmp_path / "run"].values():
        assert "20 given labels; 6 test images" in outcome.protocol


def test_one_run_without_labels_is_measured_with_several_splits(unlabelled, console):
    pick = {"protocol": ("linear",), "labels_per_class": 2}
    run_evaluate([unlabelled.path], flags(**pick, split_seed=1, name="a"), console)
    run_evaluate([unlabelled.path], flags(**pick, split_seed=2, name="b"), console)
    run_evaluate([unlabelled.path], flags(protocol=("linear",)), console)
    names = ("linear-a", "linear-b", "linear")
    found = [json.loads((unlabelled.evaluations / f"{name}.json").read_text()) for name in names]
    assert [content["labels"]["count"] for content in found] == [6, 6, 15]
    assert len({content["labels"]["split_sha256"] for content in found}) == 3
    assert len({content["checkpoint_sha256"] for content in found}) == 1
    with pytest.raises(UserError, match=r"linear-a\.json is there already"):
        run_evaluate([unlabelled.path], flags(**pick, split_seed=3, name="a"), console)
    run_evaluate([unlabelled.path], flags(**pick, split_seed=2, name="a", overwrite=True), console)
    again = json.loads((unlabelled.evaluations / "linear-a.json").read_text())
    assert again["labels"] == found[1]["labels"]
    assert again["numbers"] == found[1]["numbers"]
    compare([unlabelled.path], console)


def test_labels_that_are_all_known_come_from_no_split(trained, console):
    run_evaluate([trained.path], flags(name="all", protocol=("knn",), labels="all"), console)
    content = json.loads((trained.evaluations / "knn-all.json").read_text())
    assert content["labels"] == {"which": "all", "count": 36, "choosing": 6}


def test_a_baseline_from_scratch_may_have_other_labels_than_any_run(trained, console):
    asked = flags(name="few", protocol=("supervised",), labels_per_class=2, epochs=1, network="target")
    outcome = run_evaluate([trained.path], asked, console)[trained.path]["supervised"]
    assert "6 given labels; 30 test images" in outcome.protocol
    assert "target network" not in outcome.protocol
    content = json.loads((trained.evaluations / "supervised-few.json").read_text())
    assert content["labels"]["count"] == 6
    with pytest.raises(UserError, match="its training saw labels"):
        run_evaluate([trained.path], replace(asked, protocol=("knn", "supervised"), name="q"), console)


def evaluated(ranks, device, path, name):
    """As torchrun would: every rank runs the verb."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "joined", lambda *given: nullcontext((ranks, device)))
        flags = EvaluateFlags(device="cpu", workers=0, protocol=("knn", "linear"), name=name)
        found = run_evaluate([path], flags, Console(quiet=True))
        again = run_evaluate([path], replace(flags, overwrite=True), Console(quiet=True))
    assert found == again  # from the features on disk
    return [outcome.numbers for outcome in found[path].values()]


def test_ranks_share_the_images_and_find_what_one_finds(trained):
    (alone,) = in_ranks(1, evaluated, trained.path, "alone")
    for features in (trained.path / "features").glob("*.npy"):
        features.unlink()
    for found in in_ranks(3, evaluated, trained.path, "shared"):
        assert found == alone
    assert (trained.path / "evaluations" / "knn-shared.json").is_file()
    assert len(list((trained.path / "features").glob("*.npy"))) == 2
