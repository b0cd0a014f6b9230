from dataclasses import replace

import pytest
import torch

from semppl.core.rng import generator
from semppl.protocols.hard import hard_in_words, hard_view, hardening
from semppl.views import warp as warp_module
from semppl.views.easy import cut_out
from semppl.views.photometric import finish
from semppl.views.warp import warp


def test_the_hard_view_has_the_colours_of_the_run_and_no_harder_crops(make_desk):
    desk = make_desk()
    view = hard_view(desk)
    assert (view.size, view.min_area, view.crop) == (8, 0.35, 0.5)
    assert (view.solarise, view.grey, view.jitter) == (0.1, 0.2, 0.8)
    views = replace(desk.config.views, min_area=0.6, colour=False, solarise=False, flip=0.0)
    mild = hard_view(replace(desk, config=replace(desk.config, views=views)))
    assert (mild.min_area, mild.grey, mild.hue, mild.solarise, mild.flip) == (0.6, 0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_colours_then_perhaps_a_warp_then_a_hole(desk, monkeypatch, share):
    monkeypatch.setattr(warp_module, "SHARE", share)
    view, crops = hard_view(desk), torch.randint(0, 256, (20, 3, 8, 8), dtype=torch.uint8)
    found = hardening(desk, view, 7, "some/colours")(3, crops)
    rng = generator(7, "some/colours", 3)
    hard = finish(crops, view, *desk.statistics, rng)
    if share:
        hard = warp(hard, torch.rand(4, 20, generator=rng))
    assert torch.equal(found, cut_out(hard, torch.rand(2, 20, generator=rng)))


def test_seed_name_and_step_each_make_other_views(desk):
    view, crops = hard_view(desk), torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)
    first = hardening(desk, view, 0, "a")(0, crops)
    assert torch.equal(first, hardening(desk, view, 0, "a")(0, crops))
    for seed, name, step in [(1, "a", 0), (0, "b", 0), (0, "a", 1)]:
        assert not torch.equal(first, hardening(desk, view, seed, name)(step, crops))


@pytest.mark.parametrize(
    ("share", "warped"), [(0.0, ""), (0.5, ", 50% turned by up to 30° and sheared by up to 0.3")]
)
def test_words_name_what_all_have_and_what_some(desk, monkeypatch, share, warped):
    monkeypatch.setattr(warp_module, "SHARE", share)
    assert hard_in_words(hard_view(desk)) == (
        f"the colours of pre-training, 50% of them crops from 35% on{warped}, and a hole of half their side"
    )
