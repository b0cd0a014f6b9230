import json

import pytest
import torch
from torch import nn

from semppl.core.errors import UserError
from semppl.deploy.model import Architecture, Model, linear_head, load_model, save_model
from semppl.evaluate.bank import build_bank
from semppl.nets.encoder import create_encoder


def make(decides="linear"):
    torch.manual_seed(1)
    architecture = Architecture("resnet10", 0.0625, "small")
    encoder = create_encoder("resnet10", width=0.0625, stem="small").eval()
    features, hidden = encoder.num_features, 5
    head: nn.Module = linear_head(torch.randn(3, features), torch.randn(3))
    if decides == "fine-tuned":
        first = nn.Sequential(nn.Linear(features, hidden), nn.BatchNorm1d(hidden), nn.ReLU(inplace=True))
        head = nn.Sequential(first, nn.Linear(hidden, 3)).eval()
    return Model(
        architecture=architecture,
        encoder=encoder,
        head=head,
        decides=decides,
        bank=build_bank(torch.randn(6, features), torch.arange(6) % 3, 3),
        bank_names=[f"a/{i}.png" for i in range(5)] + ["图 \udcff.png"],
        classes=("cat", "dog", "owl"),
        size=8,
        mean_3=torch.tensor([0.1, 0.2, 0.3]),
        std_3=torch.tensor([0.4, 0.5, 0.6]),
    )


@pytest.mark.parametrize("decides", ["k-NN", "linear", "fine-tuned"])
def test_what_is_read_is_what_was_written(decides, tmp_path):
    model = make(decides)
    save_model(model, tmp_path / "model")
    for place in (tmp_path, tmp_path / "model"):
        again = load_model(place)
        images = torch.randn(4, 3, 8, 8)
        with torch.no_grad():
            before, after = (each.head(each.encoder(images)) for each in (model, again))
        assert torch.equal(before, after)
        assert torch.equal(again.bank.features_LF, model.bank.features_LF)
        assert torch.equal(again.bank.labels_L, model.bank.labels_L)
        assert again.bank.k == model.bank.k
        assert (again.classes, again.size, again.decides) == (model.classes, 8, decides)
        assert list(again.bank_names) == list(model.bank_names)
        assert torch.equal(again.mean_3, model.mean_3)


def test_what_is_no_model_is_said_in_one_line(tmp_path):
    with pytest.raises(UserError, match="no exported model here"):
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
