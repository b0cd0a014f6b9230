import pytest
import torch
from tests.conftest import save_stripes

from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory
from semppl.train.state import load_checkpoint, newest_checkpoint


def test_weights_are_those_of_the_checkpoint_and_facts_say_which(trained, subject):
    stored = load_checkpoint(newest_checkpoint(trained))
    mine = subject.online.state_dict()
    assert all(torch.equal(value, mine[name]) for name, value in stored["state"]["online"].items())
    facts = subject.facts
    assert facts["split_sha256"] == trained.split_sha256.read_text().split()[0]
    assert facts["step"] == 12
    assert facts["checkpoint"] == "step-00000012.ckpt"
    assert len(facts["checkpoint_sha256"]) == 64
    assert facts["environment"]["packages"]["torch"]
    assert subject.classes == 3


def test_an_older_checkpoint_can_be_asked_for(trained, subject_of):
    old = min(trained.checkpoints.glob("step-*"))
    assert subject_of(trained, checkpoint=old).facts["step"] == 3


def test_answers_are_marked_in_the_exam(subject):
    truth = subject.task.truth_N
    assert subject.marked(torch.nn.functional.one_hot(truth, 3).float()).top1 == 1.0


def test_a_folder_without_a_run_or_checkpoint_is_one_line(tmp_path, trained, subject_of):
    with pytest.raises(UserError, match="holds no run"):
        subject_of(RunDirectory(tmp_path))
    (tmp_path / "config.yaml").write_text(trained.config.read_text())
    with pytest.raises(UserError, match="no checkpoint yet"):
        subject_of(RunDirectory(tmp_path))


def test_other_data_than_the_runs_is_refused(tmp_path, trained, subject_of):
    for label, name in enumerate(("cat", "dog", "owl")):
        save_stripes(tmp_path / "train" / name, [label] * 7)
    with pytest.raises(UserError, match=r"its data has changed \(see split.csv\)"):
        subject_of(trained, data=str(tmp_path))
