import pytest
import torch

from semppl.core.errors import UserError
from semppl.nets.encoder import create_encoder
from semppl.nets.pretrained import create_timm, fitting_size, normalisation_of, own_size


@pytest.mark.parametrize("name", ["test_resnet", "test_vit"])
def test_a_model_of_timm_gives_features_of_views_of_any_size(name):
    encoder = create_encoder(f"timm:{name}").eval()
    for size in (32, 64):
        assert encoder(torch.zeros(2, 3, size, size)).shape == (2, encoder.num_features)


def test_the_statistics_that_its_weights_expect():
    assert normalisation_of("timm:vit_tiny_patch16_224") == ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    with pytest.raises(UserError, match="no weights"):
        normalisation_of("timm:resnet10x")


@pytest.mark.parametrize(
    ("name", "wanted", "found"),
    [
        ("timm:test_resnet", 40, 40),
        ("timm:vit_tiny_patch16_224", 64, 64),
        ("timm:vit_tiny_patch16_224", 40, 48),  # the next multiple of its patches
        ("timm:eva02_tiny_patch14_224", 64, 70),
        ("timm:convnext_atto", 8, 32),  # too small for its strides
        ("timm:resmlp_12_224", 64, 224),  # no other than its own: its layers mix as many patches
        ("timm:nothing", 64, 64),  # said elsewhere
        ("resnet18", 17, 17),
        ("", 17, 17),
    ],
)
def test_the_size_that_a_model_takes(name, wanted, found):
    assert fitting_size(name, wanted) == found


def test_the_size_of_its_weights():
    assert own_size("timm:vit_tiny_patch16_224") == 224
    assert own_size("timm:vit_base_patch14_dinov2") == 518
    assert own_size("resnet18") == own_size("timm:resnet18") == 224
    assert own_size("timm:nothing") is None


def test_unknown_names_are_answered_with_near_ones():
    with pytest.raises(UserError, match=r"timm has no model 'resnet18x': perhaps .*resnet18"):
        create_timm("timm:resnet18x", pretrained=False)


def test_weights_that_cannot_be_had_are_one_line(monkeypatch):
    def fail(*_, **__):
        raise OSError("no network\nat all")

    monkeypatch.setattr("timm.create_model", fail)
    with pytest.raises(UserError, match=r"'test_vit' could not be had \(no network\)"):
        create_timm("test_vit", pretrained=True)


def test_width_belongs_to_our_own():
    with pytest.raises(ValueError, match="has one width"):
        create_encoder("timm:test_vit", width=2)
