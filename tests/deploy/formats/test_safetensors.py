import pytest
import torch

from semppl.core.errors import UserError
from semppl.deploy.formats.format import Subject
from semppl.deploy.formats.safetensors import SAFETENSORS
from semppl.deploy.model import load_model

IMAGES = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(2))


@torch.inference_mode()
def same(one, other):
    return torch.equal(one(IMAGES), other(IMAGES))


@pytest.mark.parametrize("change", [{}, {"classes": ()}, {"hidden": True}, {"padding": "same"}])
def test_any_network_comes_back_bit_by_bit(change, make_network, tmp_path):
    subject = Subject(make_network(**change))
    assert SAFETENSORS.obstacle(subject.network) is None
    SAFETENSORS.write(subject, tmp_path)
    assert same(SAFETENSORS.answers(subject, tmp_path), subject.network)
    names = {}
    exec(SAFETENSORS.line(subject.network, tmp_path), names)
    assert same(names["model"], subject.network)
    assert names["model"].classes == subject.network.classes


def test_votes_go_along_where_there_are_some(make_model, tmp_path):
    model = make_model()
    subject = Subject(model.network, model)
    SAFETENSORS.write(subject, tmp_path)
    assert same(SAFETENSORS.answers(subject, tmp_path), model.network)
    assert torch.equal(load_model(tmp_path).bank.features_LF, model.bank.features_LF)
    (tmp_path / "none").mkdir()
    SAFETENSORS.write(Subject(model.network), tmp_path / "none")
    with pytest.raises(UserError, match="no labelled images are in this model"):
        load_model(tmp_path / "none")
