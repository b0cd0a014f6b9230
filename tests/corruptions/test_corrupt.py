import pickle
import random
from functools import cache, partial

import numpy as np
import pytest
import torch
from sklearn.datasets import load_sample_image
from torchvision.transforms.v2 import functional as V

from semppl.core.corruptions import CORRUPTIONS, SEVERITIES
from semppl.core.errors import UserError
from semppl.core.rng import generator
from semppl.corruptions.corrupt import corrupt

DRAWN = {
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "glass_blur",
    "motion_blur",
    "snow",
    "frost",
    "fog",
    "elastic_transform",
}
# as published, these change in kind as well as in strength
UNEVEN = {"snow", "frost", "fog"}


@cache
def _photograph(name, side):
    image = torch.from_numpy(load_sample_image(name).copy()).permute(2, 0, 1)
    return V.center_crop(V.resize(image, [side], antialias=True), [side, side])


def _error(image, other):
    return (image.float() - other.float()).square().mean().item()


def test_the_names_are_those_of_the_benchmark():
    assert CORRUPTIONS == (
        "gaussian_noise",
        "shot_noise",
        "impulse_noise",
        "defocus_blur",
        "glass_blur",
        "motion_blur",
        "zoom_blur",
        "snow",
        "frost",
        "fog",
        "brightness",
        "contrast",
        "elastic_transform",
        "pixelate",
        "jpeg_compression",
    )
    assert SEVERITIES == (1, 2, 3, 4, 5)


@pytest.mark.parametrize("side", [224, 32])
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_higher_severity_changes_a_photograph_more(name, side):
    errors = [
        sum(
            _error(_photograph(photo, side), corrupt(_photograph(photo, side), name, severity, seed=seed))
            for photo in ("china.jpg", "flower.jpg")
            for seed in ((0, 1) if name in DRAWN else (0,))
        )
        for severity in SEVERITIES
    ]
    assert errors[0] > 5
    assert errors[4] > 1.15 * errors[0]
    if name not in UNEVEN:
        assert errors == sorted(errors)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_the_content_can_still_be_told_and_nothing_is_blank(name):
    image = _photograph("china.jpg", 224)
    for severity in (1, 5):
        result = corrupt(image, name, severity, seed=3)
        assert result.float().std() > 1.5
        edges = torch.stack(
            [V.resize(x, [28, 28], antialias=True).float().diff(dim=1) for x in (image, result)]
        )
        assert torch.corrcoef(edges.flatten(1))[0, 1] > 0.3


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (2, 3), (5, 70), (33, 21)])
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_images_of_any_shape_keep_it(name, shape):
    image = torch.randint(256, (3, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    before = image.clone()
    for severity in (1, 5):
        result = corrupt(image, name, severity, seed=0)
        assert result.shape == image.shape
        assert result.dtype == torch.uint8
    assert torch.equal(image, before)


@pytest.mark.parametrize("level", [0, 128, 255])
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_one_grey_gives_no_nonsense(name, level):
    image = torch.full((3, 20, 24), level, dtype=torch.uint8)
    result = corrupt(image, name, 5, seed=0).float()
    if name not in DRAWN - {"glass_blur", "motion_blur", "elastic_transform"} | {"brightness"}:
        assert (result == level).all()
    # what is not a number would have become 0
    assert result.mean() > 0 or level == 0


def test_a_grey_photograph_stays_grey_where_no_colour_is_added():
    image = _photograph("china.jpg", 64)[1:2].expand(3, -1, -1)
    for name in set(CORRUPTIONS) - {"gaussian_noise", "shot_noise", "impulse_noise", "frost"}:
        result = corrupt(image, name, 5, seed=0).int()
        assert (result[0] - result[2]).abs().max() <= 1, name


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_the_seed_decides_alone(name):
    image = _photograph("china.jpg", 48)
    first = corrupt(image, name, 3, seed=1)
    torch.rand(5)
    assert torch.equal(first, corrupt(image, name, 3, seed=1))
    assert torch.equal(first, corrupt(image, name, 3, seed=2)) is (name not in DRAWN)


def test_all_draw_from_streams_of_their_own(monkeypatch):
    streams = []

    def watched(*arguments):
        streams.append(original(*arguments))
        return streams[-1]

    original = generator
    monkeypatch.setattr("semppl.corruptions.corrupt.generator", watched)
    for name in CORRUPTIONS:
        for severity in SEVERITIES:
            for seed in (0, 1):
                corrupt(torch.zeros(3, 2, 2, dtype=torch.uint8), name, severity, seed=seed)
    assert len({stream.initial_seed() for stream in streams}) == 15 * 5 * 2


def test_global_chance_is_not_touched():
    before = torch.get_rng_state(), random.getstate(), str(np.random.get_state())  # noqa: NPY002
    for name in CORRUPTIONS:
        corrupt(_photograph("china.jpg", 32), name, 4, seed=0)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (random.getstate(), str(np.random.get_state()))  # noqa: NPY002


def test_a_worker_process_can_be_given_it():
    image = _photograph("flower.jpg", 32)
    task = partial(corrupt, name="frost", severity=2, seed=7)
    assert torch.equal(pickle.loads(pickle.dumps(task))(image), task(image))


def test_unknown_names_and_severities_are_refused():
    image = torch.zeros(3, 4, 4, dtype=torch.uint8)
    with pytest.raises(UserError, match=r"unknown corruption 'rain': choose from brightness, contrast"):
        corrupt(image, "rain", 1, seed=0)
    for severity in (0, 6, -1):
        with pytest.raises(UserError, match=rf"unknown severity {severity}: choose from 1"):
            corrupt(image, "fog", severity, seed=0)


@pytest.mark.parametrize(
    "image",
    [
        torch.zeros(3, 4, 4),
        torch.zeros(1, 4, 4, dtype=torch.uint8),
        torch.zeros(2, 3, 4, 4, dtype=torch.uint8),
        torch.zeros(3, 0, 4, dtype=torch.uint8),
    ],
)
def test_what_is_not_an_image_is_refused(image):
    with pytest.raises(ValueError, match="not a uint8 image"):
        corrupt(image, "fog", 1, seed=0)
