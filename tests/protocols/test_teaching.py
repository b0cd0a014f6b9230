import io
from dataclasses import replace

import pytest
import torch
from rich.console import Console
from torch.optim import SGD, AdamW

from semppl.core.batch import Batch
from semppl.core.share import Rows
from semppl.data.image import read_image
from semppl.data.images import ImageFiles
from semppl.evaluate.consistency import Tally, make_plan
from semppl.protocols import teaching
from semppl.protocols.hard import hard_view
from semppl.protocols.self_training import without_label
from semppl.protocols.teaching import Cut, collect, collect_lot, teach
from semppl.views.easy import shift
from semppl.views.recipe import View

HOW = {"sure": 0.95, "seed": 0, "title": None}


def noise(count, side):
    return torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8)


def same(images):
    return images


# views


def test_easy_views_are_shifts_and_hard_ones_are_cut_from_shifts():
    images, rng = noise(6, 16), torch.Generator()
    whole = View(size=16, min_area=1.0, crop=0.0, flip=0.0)
    cut = Cut(same, 0.0, whole)
    easy, hard = cut(images, None, rng.manual_seed(3), Rows(0, 6, 6))
    rng.manual_seed(3)
    first, second = torch.rand(3, 6, generator=rng), torch.rand(3, 6, generator=rng)
    assert torch.equal(easy, shift(images, first, 0.0))
    assert torch.equal(hard, shift(images, second, 0.0))
    (alone,) = Cut(same, 0.0)(images, None, rng.manual_seed(3), Rows(0, 6, 6))
    assert torch.equal(alone, easy)
    ones = cut.one(images[0], rng.manual_seed(5))
    batch = cut(images[:1], None, rng.manual_seed(5), Rows(0, 1, 1))
    assert all(torch.equal(one, many[0]) for one, many in zip(ones, batch, strict=True))


def test_both_views_of_a_step_come_with_their_place_in_the_data(desk):
    easy, crops = noise(20, 8), noise(20, 8)
    batch = Batch((easy, crops), torch.zeros(20), torch.arange(20).flip(0))
    pairs = teaching._pairs(desk, lambda step: batch, torch.arange(100, 120), lambda step, hard: hard + step)
    pair = pairs(3)
    assert torch.equal(pair.hard_U3ss, crops + 3)
    assert torch.equal(pair.easy_U3ss, desk.normalised(easy)), "which nothing hardens"
    assert pair.index_U.tolist() == list(range(119, 99, -1))


# images


@pytest.mark.parametrize("feed", ["resident", "streaming"])
@pytest.mark.parametrize("memory", [0, 2**30])
def test_views_come_from_memory_and_from_files_with_their_labels(make_desk, monkeypatch, feed, memory):
    monkeypatch.setattr(teaching, "memory_for_pixels", lambda device: memory)
    desk = make_desk(feed=feed)
    index = desk.dataset.labelled_L
    material = collect(desk, index, desk.dataset.labels_M)
    read_again = feed == "streaming" and not memory
    assert isinstance(material.images, ImageFiles) == read_again
    hard = View(size=8, min_area=0.5)
    make = material.feed(desk, Cut(material.prepare, 0.0, hard), 4, 0, "x")
    seen = []
    for step in range(3):
        batch = make(step)
        easy, cut = batch.crops
        assert easy.shape == cut.shape == (4, 3, 8, 8)
        assert easy.dtype == cut.dtype == torch.uint8
        whole = desk.preprocessing.prepare(pixels(desk, index[batch.index_B]))
        assert torch.equal(easy, whole), "at 8 px nothing moves"
        assert torch.equal(batch.labels_B, desk.dataset.labels_M[index[batch.index_B]])
        seen += batch.index_B.tolist()
        assert torch.equal(make(step).crops[1], cut)
    make.close()
    assert sorted(seen) == list(range(12))


def pixels(desk, index):
    images = desk.dataset.images[index]
    if isinstance(images, torch.Tensor):
        return images
    return torch.stack([read_image(images.path(i)) for i in range(len(images))])


@pytest.mark.parametrize("memory", [0, 2**30])
def test_files_that_have_gone_bad_are_named_once(make_desk, monkeypatch, class_folders, memory):
    monkeypatch.setattr(teaching, "memory_for_pixels", lambda device: memory)
    desk = replace(make_desk(feed="streaming"), console=Console(file=io.StringIO(), width=300))
    index = torch.arange(4)
    (class_folders / "cat" / "001.png").write_bytes(b"no image")
    material = collect(desk, index, desk.dataset.labels_M)
    make = material.feed(desk, Cut(material.prepare, 0.0), 4, 0, "x")
    make(0)
    make.close()
    desk.regret(make.unreadable)
    assert desk.console.file.getvalue().count("001.png") == 1
    assert len(desk.unreadable) == 1


# the training


def lot_and_fit(desk, online):
    index, labels = desk.dataset.labelled_L, desk.dataset.labels_M
    fit = desk.linear(desk.features(online.encoder, desk.dataset.images[index]), labels[index])
    return collect_lot(desk, index, without_label(desk, labels), labels), fit


def test_without_a_title_nobody_hears_of_it_but_who_counts_along(make_desk, online):
    desk = replace(make_desk(), console=Console(file=io.StringIO(), width=300))
    lot, fit = lot_and_fit(desk, online)
    assert (len(lot.given.labels_N), len(lot.index_N)) == (12, 21), (
        "three labels are held out, and join nothing"
    )
    desk.console.file.truncate(0)
    done, plan = [], replace(make_plan(21, 1), steps=3)
    tally = Tally(4, None, desk.device)
    teach(
        desk, online.encoder, fit, lot, plan, sure=0.0, seed=0, title=None, tally=tally, advance=done.append
    )
    assert done == [1, 2, 3]
    assert not desk.console.file.getvalue().strip("\0")
    assert tally.table_E4[:, :2].sum(0).tolist() == [96, 96], "32 images in each of three steps, all sure"


def test_colours_have_random_numbers_of_their_own(desk, online, monkeypatch):
    made, real = [], teaching.hardening
    monkeypatch.setattr(teaching, "hardening", lambda *how: made.append(how[1:]) or real(*how))
    lot, fit = lot_and_fit(desk, online)
    teach(desk, online.encoder, fit, lot, replace(make_plan(21, 1), steps=1), **HOW | {"seed": 7})
    assert made == [(hard_view(desk), 7, "consistency/colours")]


def test_it_starts_as_the_encoder_with_the_fit_and_ends_as_another(desk, online):
    lot, fit = lot_and_fit(desk, online)
    images = desk.dataset.images[lot.index_N]
    expected = fit.logits(desk.features(online.encoder, images))
    still = teach(desk, online.encoder, fit, lot, replace(make_plan(21, 1), rate=0.0, steps=0), **HOW)
    torch.testing.assert_close(desk.logits(still, images).double(), expected, atol=1e-4, rtol=1e-4)
    moved = teach(desk, online.encoder, fit, lot, replace(make_plan(21, 1), steps=4, decay=0.0), **HOW)
    assert not torch.allclose(desk.logits(moved, images).double(), expected, atol=1e-2)


@pytest.mark.parametrize("plan", [make_plan(21, 1), make_plan(21, 1, answers=False), make_plan(21)])
def test_the_plan_says_how_it_descends_and_whether_doubtful_answers_teach(desk, online, monkeypatch, plan):
    seen, real = [], teaching.learn_

    def spy(student, examples, pairs, descent, rate, steps, how, **more):
        seen.append((type(descent), descent.param_groups[0]["weight_decay"], how.doubtful))
        return real(student, examples, pairs, descent, rate, steps, how, **more)

    monkeypatch.setattr(teaching, "learn_", spy)
    lot, fit = lot_and_fit(desk, online)
    teach(desk, online.encoder, fit, lot, replace(plan, steps=1), **HOW)
    assert seen == [({"sgd": SGD, "adamw": AdamW}[plan.optimizer], 5e-4, plan.doubtful)]
