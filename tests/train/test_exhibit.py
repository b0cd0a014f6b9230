import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from tests.train.test_gallery import subject

from semppl.config import DataConfig, MethodConfig
from semppl.core.hidden import HiddenLabels
from semppl.core.rundir import RunDirectory
from semppl.data import images
from semppl.train import exhibit
from semppl.train.exhibit import principal, varied, write_exhibit
from semppl.train.gallery import judged, see


def written(run, config, dataset, folder):
    """exhibit.json and the features."""
    folder.mkdir(exist_ok=True)
    write_exhibit(RunDirectory(folder), run, config, dataset)
    with np.load(folder / "exhibit" / "features.npz", allow_pickle=False) as content:
        return json.loads((folder / "exhibit" / "exhibit.json").read_text()), content["features_NP"]


KEYS = {
    *("version", "step", "epoch", "classes", "ballots", "minimum_votes", "k"),
    *("tiles", "images", "sample", "explained", "gallery"),
}


def test_all_of_it(npz, tmp_path):
    run, config, dataset = subject(npz)
    content, features = written(run, config, dataset, tmp_path / "run")
    assert set(content) == KEYS
    assert (content["version"], content["step"], content["epoch"]) == (1, 4, pytest.approx(64 / 48))
    assert (content["ballots"], content["minimum_votes"], content["k"]) == (4, 0, 1)
    assert content["classes"] == ["0", "1", "2"]
    names, sample = content["images"]["name"], content["sample"]
    assert names == list(dataset.names)
    assert content["images"]["label"] == dataset.labels_M.tolist()
    assert content["images"]["role"] == ["labelled"] * 6 + ["unlabelled"] * 42
    assert {key: len(values) for key, values in sample.items()} == dict.fromkeys(
        ("image", "vote", "votes", "tied", "right", "x", "y"), 48
    )
    seen = see(run, config, dataset, torch.arange(48))
    assert sample["vote"] == seen.labels_N.tolist()
    assert sample["votes"] == seen.counts_N.tolist()
    assert sample["tied"] == seen.tied_N.int().tolist()
    assert sample["right"] == judged(dataset, torch.arange(48), seen.labels_N)
    assert sample["right"][:6] == [None] * 6
    assert set(sample["right"][6:]) == {0, 1}
    assert features.shape == (48, 32)
    assert features.dtype == np.float16
    assert features[:, 0] == pytest.approx(np.array(sample["x"]), abs=1e-3)
    assert 1 >= sum(content["explained"]) > content["explained"][1] >= 0
    (sheet,) = content["tiles"]["sheets"]
    with Image.open(tmp_path / "run" / "exhibit" / sheet) as picture:
        assert picture.size == (2048, 2 * 64)
    assert [entry["of"] for entry in content["gallery"]] == list(range(6, 48)), "images without a label"


def test_voters_have_the_label_of_their_ballot_and_positives_that_of_the_vote(npz, tmp_path, monkeypatch):
    monkeypatch.setattr(exhibit, "_SAMPLE", 20)
    monkeypatch.setattr(exhibit, "_GALLERY", 9)
    method = MethodConfig(positives=2, queue_capacity=6, k=1)
    run, config, dataset = subject(npz, method=method)
    content, features = written(run, config, dataset, tmp_path / "run")
    assert len(content["sample"]["image"]) == len(features) == 20
    assert len(content["gallery"]) == 9
    labels, voters = content["images"]["label"], set()
    for entry in content["gallery"]:
        assert len(entry["ballots"]) == len(entry["voters"]) == 4
        for ballot, near in zip(entry["ballots"], entry["voters"], strict=True):
            ((tile, cosine),) = near
            assert labels[tile] == ballot
            assert -1 <= cosine <= 1
            voters.add(tile)
        vote = content["sample"]["vote"][entry["of"]]
        assert [labels[tile] for tile in entry["positives"]] == [vote] * 2
    outside = content["images"]["role"][20:]
    assert outside, "some voters are not in the sample"
    assert set(outside) == {"labelled"}
    assert max(voters) >= 20
    assert len(set(content["images"]["name"])) == len(labels)


def test_random_entries_of_the_start_are_no_images(npz, tmp_path):
    run, config, dataset = subject(npz, method=MethodConfig(positives=2, queue_capacity=400))
    content, _ = written(run, config, dataset, tmp_path / "run")
    voters = {t for entry in content["gallery"] for ballot in entry["voters"] for t, _ in ballot}
    assert -1 in voters


def test_fewer_neighbours_than_asked_for_are_fewer_voters(npz, tmp_path):
    method = MethodConfig(positives=2, queue_capacity=400, queue_initial_labels="none", k=50)
    run, config, dataset = subject(npz, method=method)
    content, _ = written(run, config, dataset, tmp_path / "run")
    there = len(run.state.queue)
    assert there < 50
    assert {len(ballot) for entry in content["gallery"] for ballot in entry["voters"]} == {there}


def test_of_hidden_truth_only_right_and_wrong_is_told(npz, tmp_path):
    run, config, dataset = subject(npz)
    truths = [dataset.hidden, HiddenLabels(torch.zeros(48, dtype=torch.long)), None]
    told, rights = [], []
    for i, hidden in enumerate(truths):
        content, _ = written(run, config, replace(dataset, hidden=hidden), tmp_path / str(i))
        rights.append(content["sample"].pop("right"))
        content.pop("gallery")  # chosen so that right and wrong are in it
        told.append(content)
    assert told[0] == told[1] == told[2]
    assert rights[0] != rights[1]
    assert set(rights[2]) == {None}


def test_an_oracles_positives_are_not_told(npz, tmp_path):
    run, config, dataset = subject(npz)
    run = replace(run, plan=replace(run.plan, labels="oracle"))
    content, _ = written(run, config, replace(dataset, oracle_M=torch.arange(48) % 3), tmp_path / "run")
    assert content["gallery"]
    assert all(entry["positives"] == [] for entry in content["gallery"])


def test_without_a_queue_there_are_no_votes(npz, tmp_path):
    run, config, dataset = subject(npz, method=MethodConfig(positives=0))
    content, _ = written(run, config, dataset, tmp_path / "run")
    sample = content["sample"]
    assert (set(sample["vote"]), set(sample["votes"]), set(sample["tied"])) == ({-1}, {0}, {0})
    assert set(sample["right"]) == {None}
    assert content["gallery"] == []
    assert len(content["images"]["name"]) == 48


def test_of_files_only_the_sample_is_read_and_names_may_be_anything(class_folders, tmp_path, monkeypatch):
    odd = (class_folders / "cat" / "000.png").rename(class_folders / "cat" / 'caf\udce9 "><img>.png')
    data = DataConfig(labels_per_class=5, validation=0.2, workers=0, feed="streaming")
    run, config, dataset = subject(class_folders, data=data, batch_size=8)
    read, real = set(), images.read_image
    monkeypatch.setattr(images, "read_image", lambda path: (read.add(path), real(path))[1])
    monkeypatch.setattr(exhibit, "_SAMPLE", 9)
    content, _ = written(run, config, dataset, tmp_path / "run")
    shown = content["images"]["name"]
    assert {str(class_folders / name) for name in shown} == read
    assert len(read) < 36
    monkeypatch.setattr(exhibit, "_SAMPLE", 2000)
    content, _ = written(run, config, dataset, tmp_path / "run")
    assert str(odd.relative_to(class_folders)) in content["images"]["name"]
    (tmp_path / "run" / "exhibit" / "exhibit.json").read_bytes().decode("ascii")
    roles = content["images"]["role"]
    assert [roles.count(role) for role in ("labelled", "validation", "unlabelled")] == [12, 3, 21]
    given = [
        label for label, role in zip(content["images"]["label"], roles, strict=True) if role != "unlabelled"
    ]
    assert sorted(given) == [0] * 5 + [1] * 5 + [2] * 5, "all labels that the user gave"


def test_with_all_labels_given_the_gallery_shows_those(class_folders, tmp_path):
    data = DataConfig(label_fraction=1.0, workers=0)
    run, config, dataset = subject(class_folders, data=data, batch_size=8)
    content, _ = written(run, config, dataset, tmp_path / "run")
    assert len(content["gallery"]) == 36
    assert set(content["sample"]["right"]) == {None}


def test_where_the_list_is_all_else_is_there(npz, tmp_path, monkeypatch):
    run, config, dataset = subject(npz)
    written(run, config, dataset, tmp_path / "run")
    folder = tmp_path / "run" / "exhibit"
    (folder / ".tiles-0.webp.17.tmp").write_bytes(b"cut off")

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(exhibit, "write_tiles", full)
        with pytest.raises(OSError, match="No space"):
            write_exhibit(RunDirectory(tmp_path / "run"), run, config, dataset)
    assert not (folder / "exhibit.json").exists()
    written(run, config, dataset, tmp_path / "run")
    assert {file.name for file in folder.iterdir()} == {"exhibit.json", "features.npz", "tiles-0.webp"}


@pytest.mark.parametrize("shape", [(30, 7), (7, 30), (12, 12)])
def test_principal_components_are_those_of_a_singular_value_decomposition(shape):
    features = torch.randn(shape) * torch.linspace(1, 3, shape[1])
    places, shares = principal(features, 5)
    centred = (features.double() - features.double().mean(0)).numpy()
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    assert places.shape == (shape[0], 5)
    assert np.abs(places.numpy()) == pytest.approx(np.abs(left * values)[:, :5], abs=1e-6)
    assert shares.numpy() == pytest.approx((values**2 / (values**2).sum())[:5], abs=1e-9)
    assert (places.gather(0, places.abs().argmax(0, keepdim=True)) > 0).all()


@pytest.mark.parametrize(
    "features", [torch.ones(1, 6), torch.ones(5, 6), torch.ones(5, 1), torch.zeros(3, 3)]
)
def test_equal_features_lie_in_one_point(features):
    places, shares = principal(features, 32)
    assert places.shape[1] >= 2
    assert len(shares) >= 2
    assert not places.any()
    assert not shares.any()


def test_features_of_one_dimension_lie_on_a_line():
    places, shares = principal(torch.tensor([[0.0], [1.0], [5.0]]), 32)
    assert places.tolist() == [[-2, 0], [-1, 0], [3, 0]]
    assert shares.tolist() == [1, 0]


def test_a_choice_shows_every_value_of_every_attribute():
    values = torch.stack(
        [torch.arange(1000) % 150, torch.arange(1000) // 990, (torch.arange(1000) == 500)], 1
    )
    chosen = varied(values, (10.0, 20.0, 20.0), 160)
    assert chosen == sorted(set(chosen))
    assert len(chosen) == 160
    assert [len(values[chosen, a].unique()) for a in range(3)] == [150, 2, 2]


def test_rare_values_go_before_the_many_classes():
    values = torch.stack([torch.arange(1000), (torch.arange(1000) == 999).long()], 1)
    assert 999 in varied(values, (10.0, 20.0), 5)


def test_a_choice_by_hand():
    values = torch.tensor([[0], [0], [0], [1], [1], [2]])
    assert varied(values, (10.0,), 4) == [0, 1, 3, 5], "each once, then the first of those shown least"
    assert varied(values, (10.0,), 99) == [0, 1, 2, 3, 4, 5]
    assert varied(values, (10.0,), 0) == []


def test_nothing_that_is_no_number_is_written(npz, tmp_path):
    run, config, dataset = subject(npz)
    with torch.no_grad():
        run.state.online.encoder.conv1.weight.fill_(torch.inf)
    content, features = written(run, config, dataset, tmp_path / "run")
    assert np.isfinite(features).all()
    assert not re.search(r"NaN|Infinity", (tmp_path / "run" / "exhibit" / "exhibit.json").read_text())
    assert content["version"] == 1
