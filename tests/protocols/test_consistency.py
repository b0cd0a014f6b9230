import io
import json
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from semppl.core.errors import UserError
from semppl.core.share import Rows
from semppl.data.image import read_image
from semppl.data.images import ImageFiles
from semppl.protocols import consistency
from semppl.protocols.consistency import Cut, collect, finetune_consistently, hard_view
from semppl.protocols.finetuning import finetune
from semppl.protocols.run import run_evaluate
from semppl.protocols.settings import EvaluateFlags
from semppl.views.easy import shift
from semppl.views.recipe import View


def noise(count, side):
    return torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8)


def same(images):
    return images


# views


def test_the_hard_view_has_the_colours_of_the_run_and_no_harder_crops(make_desk):
    desk = make_desk()
    view = hard_view(desk)
    assert (view.size, view.min_area, view.crop) == (8, 0.35, 0.5)
    assert (view.solarise, view.grey, view.jitter) == (0.1, 0.2, 0.8)
    views = replace(desk.config.views, min_area=0.6, colour=False, solarise=False, flip=0.0)
    mild = hard_view(replace(desk, config=replace(desk.config, views=views)))
    assert (mild.min_area, mild.grey, mild.hue, mild.solarise, mild.flip) == (0.6, 0.0, 0.0, 0.0, 0.0)


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


# images


@pytest.mark.parametrize("feed", ["resident", "streaming"])
@pytest.mark.parametrize("memory", [0, 2**30])
def test_views_come_from_memory_and_from_files_with_their_labels(make_desk, monkeypatch, feed, memory):
    monkeypatch.setattr(consistency, "memory_for_pixels", lambda device: memory)
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
    monkeypatch.setattr(consistency, "memory_for_pixels", lambda device: memory)
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


# the protocol


def test_it_runs_through_evaluate_and_says_what_was_done(trained):
    console = Console(file=io.StringIO(), width=2000)
    flags = EvaluateFlags(
        protocol=("finetune",),
        consistency=True,
        sure=0.4,
        epochs=3,
        seeds=2,
        device="cpu",
        workers=0,
        name="consistent",
    )
    run_evaluate([trained.path], flags, console)
    content = json.loads((trained.evaluations / "finetune-consistent.json").read_text())
    words = "fine-tuned with consistency: 21 unlabelled images, P = 0.4, 3 epochs of them"
    assert content["protocol"].startswith(words)
    assert words in console.file.getvalue()
    assert "15 given labels; 30 test images; 2 seed(s)" in content["protocol"]
    assert content["settings"]["least_probability"] == 0.4
    assert content["settings"]["steps"] == 2
    first, second = content["details"]["consistency"]
    assert (first["seed"], second["seed"]) == (0, 1)
    for curve in (first["by_epoch"], second["by_epoch"]):
        assert [row["epoch"] for row in curve] == [1, 2, 3]
        assert all(0 <= row["coverage"] <= 1 for row in curve)
        assert any("right" in row for row in curve)
    assert "sure of " in console.file.getvalue()
    assert "images without a label in the last epoch" in console.file.getvalue()


def weights_of(monkeypatch):
    """State of every teacher that was trained."""
    kept, real = [], consistency.learn_

    def spy(*given, **how):
        teacher = real(*given, **how)
        kept.append({name: value.clone() for name, value in teacher.state_dict().items()})
        return teacher

    monkeypatch.setattr(consistency, "learn_", spy)
    return kept


def test_a_seed_decides_everything_and_the_run_stays_as_it_is(trained, subject_of, monkeypatch):
    kept = weights_of(monkeypatch)
    for seed in (0, 0, 1):
        subject = subject_of(trained, consistency=True, epochs=4, seed=seed)
        before = {name: value.clone() for name, value in subject.online.state_dict().items()}
        torch.manual_seed(seed + 77)
        finetune(subject)
        assert all(torch.equal(value, before[name]) for name, value in subject.online.state_dict().items())
    first, again, other = kept
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    assert not all(torch.equal(value, other[name]) for name, value in first.items())


def test_withheld_truth_changes_no_weight(trained, subject_of, monkeypatch):
    kept = weights_of(monkeypatch)
    for hidden in (True, False):
        subject = subject_of(trained, consistency=True, sure=0.0, epochs=4)
        if not hidden:
            object.__setattr__(subject.desk.dataset, "hidden", None)
        curve = finetune_consistently(subject).details["consistency"][0]["by_epoch"]
        assert ("right" in curve[0]) == hidden
        assert curve[0]["coverage"] == 1
    assert all(torch.equal(value, kept[1][name]) for name, value in kept[0].items())


def test_where_the_device_can_steps_are_recorded_with_the_same_weights(
    trained, subject_of, monkeypatch, recorded
):
    kept = weights_of(monkeypatch)
    finetune(subject_of(trained, consistency=True, sure=0.4, epochs=8))
    recorder = recorded()
    finetune(subject_of(trained, consistency=True, sure=0.4, epochs=8))
    assert (recorder.runs, recorder.recordings) == (3, 1)
    assert recorder.replays > 0
    torch.testing.assert_close(kept[0], kept[1])


def test_a_set_with_all_its_labels_is_refused(trained, subject_of):
    with pytest.raises(UserError, match="every image has a label: leave --consistency out"):
        finetune(subject_of(trained, consistency=True, labels="all"))
