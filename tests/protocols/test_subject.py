import io
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console
from tests.conftest import damage, save_stripes, tiny_config

from semppl.config import DataConfig, MethodConfig
from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory
from semppl.protocols.settings import EvaluateFlags
from semppl.protocols.subject import load_subject
from semppl.protocols.task import build_task
from semppl.train.build import build_networks
from semppl.train.checkpoint import load_checkpoint, newest_checkpoint
from semppl.train.pretrain import pretrain

CPU = torch.device("cpu")


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


def test_no_weights_are_drawn_where_the_checkpoint_has_all(trained, subject_of, monkeypatch):
    def draw(*_, **__):
        raise AssertionError("these would be replaced")

    monkeypatch.setattr(torch.nn.init, "trunc_normal_", draw)
    assert subject_of(trained).projected


def test_a_run_that_saw_no_label_is_asked_with_labels_of_damaged_files(class_folders, tmp_path, quiet):
    damage(class_folders / "cat" / "003.png")
    config = tiny_config(
        class_folders,
        data=DataConfig(labels_per_class=1, workers=0, feed="streaming"),
        method=MethodConfig(positives=0),
        epochs=1.0,
    )
    run = RunDirectory(tmp_path / "run")
    pretrain(config, run, console=quiet)
    flags = EvaluateFlags(device="cpu", workers=0, labels_per_class=12, cache=False)
    assert len(load_subject(run.path, flags, quiet).desk.dataset.labelled_L) == 36


def test_an_image_that_is_grey_in_memory_is_named_with_the_result(class_folders, tmp_path, quiet):
    config = tiny_config(class_folders, data=DataConfig(labels_per_class=4, workers=0), epochs=1.0)
    run = RunDirectory(tmp_path / "run")
    pretrain(config, run, console=quiet)
    file = class_folders / "cat" / "003.png"
    length = file.stat().st_size
    damage(file)
    assert file.stat().st_size == length, "else the images are others"
    subject = load_subject(run.path, EvaluateFlags(device="cpu", workers=0, cache=False), quiet)
    assert isinstance(subject.desk.dataset.images, torch.Tensor)
    (problem,) = subject.desk.unreadable
    assert problem.startswith(f"{file}: not a readable image")


def without(trained, folder, *prefixes):
    """The checkpoint, but for weights of those names."""
    content = load_checkpoint(newest_checkpoint(trained))
    online = content["state"]["online"]
    kept = {name: value for name, value in online.items() if not name.startswith(prefixes)}
    content["state"]["online"] = kept
    torch.save(content, folder / "step-00000012.ckpt")
    return folder / "step-00000012.ckpt", kept


def test_a_projector_that_the_weights_lack_is_drawn_from_the_seed(trained, subject_of, tmp_path):
    file, kept = without(trained, tmp_path, "projector.")
    subject = subject_of(trained, checkpoint=file)
    assert not subject.projected
    mine = subject.online.state_dict()
    assert all(torch.equal(value, mine[name]) for name, value in kept.items())
    start = build_networks(subject.desk.config, CPU)[0].projector.state_dict()
    assert all(torch.equal(value, mine[f"projector.{name}"]) for name, value in start.items())


@pytest.mark.parametrize(
    "lost", [("encoder.conv1.weight",), ("projector.3.weight",), ("encoder.conv1.weight", "projector.")]
)
def test_weights_that_do_not_fit_are_one_line(trained, subject_of, tmp_path, lost):
    file, _ = without(trained, tmp_path, *lost)
    with pytest.raises(UserError, match=r"its weights do not fit the network of the run's config\.yaml"):
        subject_of(trained, checkpoint=file)


def test_an_older_checkpoint_can_be_asked_for(trained, subject_of):
    old = min(trained.checkpoints.glob("step-*"))
    assert subject_of(trained, checkpoint=old).facts["step"] == 3


def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_it_used(trained, tmp_path):
    run = RunDirectory(tmp_path / "run")
    shutil.copytree(trained.path, run.path)
    newest = newest_checkpoint(run)
    newest.write_bytes(newest.read_bytes()[:-1])
    console = Console(file=io.StringIO(), width=40)
    subject = load_subject(run.path, EvaluateFlags(device="cpu", workers=0, cache=False), console)
    assert subject.facts["step"] == 9
    assert subject.facts["checkpoint"] == "step-00000009.ckpt"
    line = f"{newest} is damaged (File is not a zip file): going on with step-00000009.ckpt"
    assert line in console.file.getvalue().splitlines()


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


def test_other_pixels_under_the_same_names_are_refused(tmp_path, subject_of):
    data = tmp_path / "data.npz"
    x, y = np.zeros((12, 8, 8), dtype=np.uint8), np.arange(12) % 2
    x[y == 1] = 200
    x += np.arange(12, dtype=np.uint8)[:, None, None]
    given = np.where(np.arange(12) < 6, y, -1)
    np.savez(data, x=x, y=given, x_test=x + 20, y_test=y)
    run = RunDirectory(tmp_path / "run")
    pretrain(tiny_config(data, batch_size=4, epochs=1.0), run, console=Console(quiet=True))
    subject_of(run)
    np.savez(data, x=x + 1, y=given, x_test=x + 20, y_test=y)
    with pytest.raises(UserError, match="not those that it was trained on"):
        subject_of(run)


def test_data_and_its_table_may_have_moved(tmp_path, class_folders, subject_of):
    table = tmp_path / "labels.csv"
    rows = [f"{name}/{i:03d}.png,{name}" for name in ("cat", "dog") for i in range(4)]
    table.write_text("\n".join(["path,label", *rows]))
    config = tiny_config(class_folders, data=DataConfig(labels=str(table), validation=0.3, workers=0))
    run = RunDirectory(tmp_path / "run")
    pretrain(config, run, console=Console(quiet=True))
    (tmp_path / "there").mkdir()
    moved = class_folders.rename(tmp_path / "there" / "pets")
    table.rename(tmp_path / "new.csv")
    assert subject_of(run, data=str(moved), table=tmp_path / "new.csv").classes == 2


def test_a_run_that_is_not_finished_is_called_so(trained):
    console = Console(file=io.StringIO(), width=300)
    flags = EvaluateFlags(device="cpu", workers=0, checkpoint=min(trained.checkpoints.glob("step-*")))
    load_subject(trained.path, flags, console)
    assert "step 3: not finished, 12 are planned" in console.file.getvalue()


def test_precision_is_what_was_asked_for_and_fp32_on_a_cpu(trained, subject_of):
    assert subject_of(trained).desk.config.precision == "auto"
    assert not torch.is_autocast_enabled("cpu")
    with subject_of(trained).desk.precision():
        assert not torch.is_autocast_enabled("cpu")
    with pytest.raises(UserError, match="--precision bf16 is for GPUs"):
        subject_of(trained, precision="bf16")


def test_images_are_seen_as_the_run_saw_them_or_as_asked(trained, subject_of):
    own = subject_of(trained)
    assert own.desk.preprocessing.crop == "middle"
    assert own.facts["preprocessing"] == load_checkpoint(newest_checkpoint(trained))["preprocessing"]
    other = subject_of(trained, preprocessing="deepmind")
    assert other.desk.preprocessing == replace(own.desk.preprocessing, crop="deepmind")
    images = own.desk.dataset.images[torch.arange(3)]
    one, two = (each.desk.features(each.online.encoder, images) for each in (own, other))
    assert not torch.allclose(one, two, atol=1e-4)


def test_statistics_of_a_checkpoint_that_kept_none_are_those_of_the_data(trained, subject_of, tmp_path):
    expected = subject_of(trained).desk.preprocessing
    content = load_checkpoint(newest_checkpoint(trained))
    del content["preprocessing"]
    old = tmp_path / "step-00000012.ckpt"
    torch.save(content, old)
    assert subject_of(trained, checkpoint=old).desk.preprocessing == expected


def test_a_run_that_saw_labels_has_no_others(trained, subject_of):
    with pytest.raises(UserError, match="its training saw labels"):
        subject_of(trained, labels_per_class=2)
    same = subject_of(trained, labels_per_class=5, split_seed=0)
    assert same.facts["split_sha256"] == subject_of(trained).facts["split_sha256"], "its own may be said"


def test_other_labels_are_those_that_pretrain_would_draw(unlabelled, pets, subject_of, tmp_path):
    data = DataConfig(labels_per_class=3, split_seed=2, workers=0)
    config = tiny_config(pets, data=data, batch_size=12, epochs=1.0)
    run = RunDirectory(tmp_path / "run")
    pretrain(config, run, console=Console(quiet=True))
    subject = subject_of(unlabelled, labels_per_class=3, split_seed=2)
    assert subject.facts["split_sha256"] == run.split_sha256.read_text().split()[0]
    assert subject.desk.config.data.labels_per_class == 3
    assert subject.desk.config.split_seed == 2
    own = subject_of(unlabelled)
    assert own.facts["split_sha256"] == unlabelled.split_sha256.read_text().split()[0]
    assert subject.facts["checkpoint_sha256"] == own.facts["checkpoint_sha256"]
    assert len(subject_of(unlabelled, label_fraction=0.5).task.labels.all_L) == 18
    with pytest.raises(UserError, match="class 'cat' has 12 labelled images: 13 per class were asked for"):
        subject_of(unlabelled, labels_per_class=13)
    with pytest.raises(UserError, match="give one of them"):
        subject_of(unlabelled, labels_per_class=1, label_fraction=0.5)


def test_other_labels_leave_the_test_alone_and_all_others_withheld(unlabelled, subject_of):
    own, subject = subject_of(unlabelled), subject_of(unlabelled, labels_per_class=3, split_seed=2)
    mine, theirs = subject.desk.dataset, own.desk.dataset
    assert mine.test_names == theirs.test_names
    assert torch.equal(mine.test_labels_T, theirs.test_labels_T)
    assert mine.names == theirs.names
    assert len(mine.labelled_L) == 9
    assert not torch.equal(mine.labels_M, theirs.labels_M)
    assert mine.oracle_M is None
    truth = torch.tensor([("cat", "dog", "owl").index(name.split("/")[-2]) for name in mine.names])
    known = mine.hidden.agreement(torch.arange(36), truth, torch.zeros(36, dtype=torch.long), 1)
    assert known.tolist() == [[36, 36]]
    bare = replace(mine, test_images=None, test_labels_T=None)
    task = build_task(bare, which="given", share=0.2, seed=0)
    assert (task.exam.kind, len(task.exam)) == ("withheld", 27), "marked on none of the nine"


def test_other_labels_of_other_images_are_refused(unlabelled, subject_of, tmp_path):
    for label, name in enumerate(("cat", "dog", "owl")):
        save_stripes(tmp_path / "train" / name, [label] * 12, seed=9)
    with pytest.raises(UserError, match=r"its data has changed \(see split.csv\)"):
        subject_of(unlabelled, data=str(tmp_path), labels_per_class=2)


def test_the_target_network_can_be_asked(trained, subject_of, tmp_path):
    content = load_checkpoint(newest_checkpoint(trained))
    mine = subject_of(trained, network="target").online.state_dict()
    assert all(torch.equal(value, mine[name]) for name, value in content["state"]["target"].items())
    name = "encoder.layer4.0.conv1.weight"
    assert not torch.equal(mine[name], subject_of(trained).online.state_dict()[name])
    assert subject_of(trained, network="target").facts["network"] == "target"
    content["state"]["target"] = None
    torch.save(content, tmp_path / "step-00000012.ckpt")
    with pytest.raises(UserError, match="holds no target network: leave --network out"):
        subject_of(trained, network="target", checkpoint=tmp_path / "step-00000012.ckpt")


def test_what_starts_from_random_weights_needs_no_checkpoint(trained, tmp_path, subject_of):
    run = RunDirectory(tmp_path / "run")
    shutil.copytree(trained.path, run.path, ignore=shutil.ignore_patterns("checkpoints"))
    subject, whole = subject_of(run, protocol=("supervised",)), subject_of(trained)
    assert subject.facts["checkpoint"] is None
    assert subject.facts["split_sha256"] == whole.facts["split_sha256"]
    assert subject.desk.preprocessing == whole.desk.preprocessing
    for protocol in (("supervised", "linear"), ("knn",)):
        with pytest.raises(UserError, match="no checkpoint yet"):
            subject_of(run, protocol=protocol)
    run.environment.write_text(run.environment.read_text().replace('"data_sha256": "', '"data_sha256": "0'))
    with pytest.raises(UserError, match="not those that it was trained on"):
        subject_of(run, protocol=("supervised",))
    for broken in ("{}", "[]", "{"):
        run.environment.write_text(broken)
        with pytest.raises(UserError, match="no checkpoint yet"):
            subject_of(run, protocol=("supervised",))


def test_masks_that_are_gone_are_not_missed(trained, tmp_path, subject_of):
    run = RunDirectory(tmp_path / "run")
    shutil.copytree(trained.path, run.path)
    text = run.config.read_text()
    assert "  masks: none\n" in text
    run.config.write_text(text.replace("  masks: none\n", "  masks: /gone/pets.masks\n"))
    assert subject_of(run).desk.dataset.masks_place is None
