import json
from dataclasses import replace
from typing import get_args

import pytest
import torch
from tests.deploy.conftest import build

from semppl.core.errors import UserError
from semppl.deploy.model import (
    Decides,
    Model,
    load_model,
    load_network,
    model_folder,
    save_model,
    save_network,
)
from semppl.evaluate.bank import build_bank


def make(decides="linear"):
    network = build(hidden=decides == "fine-tuned")
    features_LF = torch.randn(6, network.encoder.num_features)
    names = [f"a/{i}.png" for i in range(5)] + ["图 \udcff.png"]
    return Model(network, decides, build_bank(features_LF, torch.arange(6) % 3, 3), names)


@pytest.mark.parametrize("decides", get_args(Decides))
def test_what_is_read_is_what_was_written(decides, tmp_path):
    model = make(decides)
    save_model(model, tmp_path / "model")
    for place in (tmp_path, tmp_path / "model"):
        again = load_model(place)
        images = torch.randn(4, 3, 8, 8)
        with torch.no_grad():
            before, after = (each.network(images) for each in (model, again))
        assert torch.equal(before, after)
        assert torch.equal(again.bank.features_LF, model.bank.features_LF)
        assert torch.equal(again.bank.labels_L, model.bank.labels_L)
        assert again.bank.k == model.bank.k
        assert (again.classes, again.decides) == (model.classes, decides)
        assert again.network.preprocessing == model.network.preprocessing
        assert again.network.architecture == model.network.architecture
        assert list(again.bank_names) == list(model.bank_names)
        assert torch.equal(again.network.mean_3, model.network.mean_3)


def test_what_is_no_model_is_said_in_one_line(tmp_path):
    with pytest.raises(UserError, match=r"no model that knows labels here .* --labels"):
        load_model(tmp_path)
    save_model(make(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "format": 99}))
    with pytest.raises(UserError, match=r"another version \(format 99\)"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**config, "architecture": {"encoder": "resnet10"}}))
    with pytest.raises(UserError, match="not a readable model"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(UserError, match="not a readable model"):
        load_model(tmp_path)


@pytest.mark.parametrize("changes", [{"classes": ()}, {}, {"hidden": True}, {"crop": "deepmind", "size": 9}])
def test_a_network_without_votes(changes, tmp_path):
    network = build(**changes)
    save_network(network, tmp_path)
    again = load_network(tmp_path)
    assert model_folder(tmp_path) == tmp_path
    assert (again.classes, again.preprocessing) == (network.classes, network.preprocessing)
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        assert torch.equal(again(x), network(x))
    assert not again.training
    with pytest.raises(UserError, match="no labelled images are in this model: give some, with --labels"):
        load_model(tmp_path)


def test_the_architecture_is_kept(tmp_path):
    network = build("resnet50", width=0.25, sk=True, padding="same", stem="imagenet", size=32)
    save_network(network, tmp_path)
    again = load_network(tmp_path)
    assert again.architecture == network.architecture
    x = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(again(x), network(x))


def test_models_of_the_first_version_are_read(tmp_path):
    """They knew neither selective kernels nor padding nor crops."""
    model = make()
    save_model(model, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["crop"], config["architecture"]["sk"], config["architecture"]["padding"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    again = load_model(tmp_path)
    assert again.network.preprocessing == replace(model.network.preprocessing, crop="middle")
    assert again.network.architecture == model.network.architecture


def test_a_folder_of_another_library_is_one_line(tmp_path):
    save_network(build(), tmp_path)
    (tmp_path / "config.json").write_text('{"architecture": "resnet18"}')
    with pytest.raises(UserError, match="written by another library: give a model of semppl"):
        load_network(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        [],
        {"crop": "x"},
        {"input_size": "8"},
        {"input_size": 0},
        {"classes": ["cat", "dog"]},
        {"neighbours": 0},
        {"normalisation": {"mean": [0.5], "std": [0.5, 0.5, 0.5]}},
        {"architecture": {"encoder": "resnet10", "width": 0.0625, "stem": "small", "padding": "x"}},
    ],
    ids=str,
)
@pytest.mark.parametrize("decides", ["linear", "fine-tuned"])
def test_an_edited_config_is_one_line(change, decides, tmp_path):
    save_model(make(decides), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    changed = {**config, **change} if isinstance(change, dict) else change
    (tmp_path / "config.json").write_text(json.dumps(changed))
    with pytest.raises(UserError, match="not a readable model"):
        load_model(tmp_path)


def test_a_config_that_is_no_text_is_one_line(tmp_path):
    save_model(make(), tmp_path)
    (tmp_path / "config.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(UserError, match="not a readable model"):
        load_model(tmp_path)
