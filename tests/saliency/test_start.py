from dataclasses import replace
from functools import partial

import pytest
import torch

from semppl.config import NetConfig
from semppl.core.errors import UserError
from semppl.core.labels import UNLABELLED
from semppl.nets.encoder import create_encoder
from semppl.saliency import start
from semppl.saliency.network import ENCODER
from semppl.saliency.start import STEPS, started_encoder

CPU = torch.device("cpu")


def images(count, seed=0, side=32):
    rng = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, generator=rng)


@pytest.fixture
def narrow(monkeypatch):
    """The encoder with an eighth of its channels."""
    monkeypatch.setattr(start, "NetConfig", partial(NetConfig, width=0.125))


@pytest.fixture
def built(monkeypatch):
    """What was built: its configuration, its data, its training, and the weights that it began with."""
    seen = []

    def spy(config, dataset, device):
        training = real(config, dataset, device)
        fresh = {name: value.clone() for name, value in training.state.online.encoder.state_dict().items()}
        seen.append((config, dataset, training, fresh))
        return training

    real = start.build_training
    monkeypatch.setattr(start, "build_training", spy)
    return seen


def begin(pictures, steps=2, seed=5, advance=lambda *_: None):
    return started_encoder(pictures, device=CPU, seed=seed, advance=advance, steps=steps)


def test_weights_fit_the_network_and_are_no_longer_fresh(built):
    weights = begin(images(4))
    create_encoder(ENCODER).load_state_dict(weights)
    _, _, training, fresh = built[0]
    assert all(value.isfinite().all() for value in weights.values())
    assert all(not torch.equal(weights[name], fresh[name]) for name in weights)
    before = weights["conv1.weight"].clone()
    training.state.online.encoder.conv1.weight.data.zero_()
    assert torch.equal(weights["conv1.weight"], before)


def test_the_seed_and_the_images_decide(narrow):
    def conv(**changes):
        torch.manual_seed(len(changes))
        return begin(**{"pictures": images(4), **changes})["conv1.weight"]

    assert torch.equal(conv(), conv(seed=5))
    assert not torch.equal(conv(), conv(seed=6))
    assert not torch.equal(conv(), conv(pictures=images(4, seed=1)))


def test_it_sees_images_and_neither_labels_nor_masks(narrow, built):
    pictures = images(3)
    begin(pictures, steps=1)
    config, dataset, training, _ = built[0]
    assert dataset.labels_M.tolist() == [UNLABELLED] * 3
    assert dataset.classes == ()
    assert dataset.hidden is dataset.oracle_M is dataset.masks_MHW is dataset.mask_files is None
    assert torch.equal(dataset.images, pictures)
    assert config.saliency.probability == 0
    assert config.method.objective == "simclr"
    assert training.state.queue is None


@pytest.mark.parametrize(("count", "most", "batch"), [(2, 512, 2), (5, 512, 5), (4, 4, 4), (7, 4, 4)])
@pytest.mark.parametrize("steps", [1, 3])
def test_so_many_steps_for_any_number_of_images(narrow, built, monkeypatch, count, most, batch, steps):
    monkeypatch.setattr(start, "_BATCH", most)
    told = []
    weights = begin(images(count), steps=steps, advance=lambda done, total: told.append((done, total)))
    assert told == [(step + 1, steps) for step in range(steps)]
    assert built[0][0].batch_size == batch
    assert all(value.isfinite().all() for value in weights.values())


def test_rounding_never_costs_or_adds_a_step():
    for count in (2, 3, 7, 511, 512, 513, 700, 1000, 2500, 9999, 10_000, 100_003):
        for steps in (1, 2, 10, 999, STEPS):
            assert start._config(count, 32, steps, 0).total_steps(count) == steps


@pytest.mark.parametrize(("side", "view"), [(32, 32), (95, 95), (96, 96), (192, 96)])
def test_views_are_no_larger_than_the_images(side, view):
    config = start._config(4, side, 1, 0)
    assert config.views.large_size == view
    assert replace(config.views, large_size=0) == replace(start._config(4, 8, 1, 0).views, large_size=0)


def test_one_image_has_nothing_to_differ_from():
    with pytest.raises(UserError, match=r"1 image: at least 2"):
        begin(images(1))
