from dataclasses import replace
from itertools import product

import pytest
import torch
from tests.conftest import tiny_config
from tests.train.test_state import CPU, same, training
from torch import nn
from torch.nn.functional import normalize

from semppl.config import DataConfig, MethodConfig
from semppl.core.hidden import HiddenLabels
from semppl.core.rng import generator, stream
from semppl.data.dataset import Dataset
from semppl.data.image import read_image
from semppl.data.images import ImageFiles
from semppl.data.masks import MaskFiles
from semppl.data.paths import Paths
from semppl.data.request import Request
from semppl.data.source import load_dataset
from semppl.method.pseudo_labels import majority, vote
from semppl.method.queue import LabelledQueue
from semppl.train import gallery
from semppl.train.build import build_training
from semppl.train.gallery import NO_SLOT, asked, at_rest, images_in, judged, part_of, see, voters
from semppl.train.prepare import load_for, resolved_for
from semppl.train.step import train_step_
from semppl.views.geometry import cut_image, cut_views
from semppl.views.photometric import finish


def subject(source, **changes):
    """A run of a few steps with its configuration and data."""
    config = tiny_config(source, **changes)
    dataset = load_for(config, CPU)
    config = resolved_for(config, dataset)
    run = build_training(config, dataset, CPU)
    for step in range(4):
        train_step_(run.state, run.feed(step), run.plan)
    return run, config, dataset


def filled(labels, views=2, capacity=None, dim=4):
    queue = LabelledQueue(views, capacity or len(labels), dim, 5, initial_labels="none")
    rows = normalize(torch.randn(views, len(labels), dim), dim=-1)
    queue.push_(rows, torch.tensor(labels))
    return queue


@pytest.mark.parametrize(
    ("pairs", "tie", "k"), list(product(("all", "same", "one"), ("lowest", "similarity"), (1, 3)))
)
@pytest.mark.parametrize("capacity", [2, 40])
def test_ballots_agree_with_the_vote_and_with_their_voters(npz, pairs, tie, k, capacity):
    queue = filled([0, 4] if capacity == 2 else [i % 5 for i in range(33)], capacity=capacity)
    plan = replace(training(npz).plan, pairs=pairs, tie=tie, k=k)
    predictions = torch.randn(2, 7, 4)
    seen = asked(predictions, torch.full((7,), -1), queue, plan, torch.Generator())
    votes = vote(predictions, queue, k=k, pairs=pairs, tie=tie)
    assert torch.equal(seen.labels_N, votes.labels_B)
    assert torch.equal(seen.counts_N, votes.counts_B)
    assert torch.equal(seen.ballots_NJ, votes.ballots_JB.T)
    assert torch.equal(seen.tied_N, votes.tied_B)
    labels = queue.labels_C[seen.voters_NJK.clamp(min=0)].where(seen.voters_NJK != NO_SLOT, -1)
    again = majority(labels.flatten(0, 1), seen.cosines_NJK.flatten(0, 1), tie).labels_R
    assert torch.equal(again.view_as(seen.ballots_NJ), seen.ballots_NJ)
    assert ((seen.voters_NJK == NO_SLOT) == seen.cosines_NJK.isinf()).all()
    assert (seen.voters_NJK != NO_SLOT).sum(2).unique().tolist() == [min(k, len(queue))]


def test_voters_by_brute_force(npz):
    queue, plan = filled([0, 1, 2, 3, 4, 0]), replace(training(npz).plan, k=2)
    predictions = torch.randn(2, 3, 4)
    cosines, slots = voters(predictions, queue, plan)
    for image, (i, j) in product(range(3), product(range(2), range(2))):
        near = normalize(predictions[j, image], dim=0) @ queue.embeddings_VCD[i].T
        expected = near.sort(descending=True)
        assert slots[image, 2 * i + j].tolist() == expected.indices[:2].tolist()
        assert torch.allclose(cosines[image, 2 * i + j], expected.values[:2], atol=1e-6)


def test_an_empty_queue_says_nothing(npz):
    queue = LabelledQueue(2, 3, 4, 5, initial_labels="none")
    seen = asked(torch.randn(2, 3, 4), torch.full((3,), -1), queue, training(npz).plan, torch.Generator())
    assert (seen.labels_N == -1).all()
    assert (seen.voters_NJK == NO_SLOT).all()
    assert (seen.positives_NP == NO_SLOT).all()


@pytest.mark.parametrize(
    ("labels", "minimum", "expected"),
    [("pseudo", 0, [1, 3]), ("pseudo", 5, [1, -1]), ("given", 0, [1, -1]), ("oracle", 0, [1, -1])],
)
def test_positives_have_the_given_label_or_the_vote_and_never_an_oracles(npz, labels, minimum, expected):
    queue = filled([0, 1, 2, 3, 4] * 4, dim=5)
    embeddings = torch.eye(5).repeat(4, 1)
    queue.push_(embeddings.expand(2, -1, -1), torch.arange(5).repeat(4))
    plan = replace(training(npz).plan, labels=labels, minimum_votes=minimum, num_positives=6)
    predictions = torch.eye(5)[[0, 3]].expand(2, -1, -1)  # the vote for both
    seen = asked(predictions, torch.tensor([1, -1]), queue, plan, generator(0, "x"))
    assert seen.labels_N.tolist() == [0, 3]
    drawn = queue.labels_C[seen.positives_NP.clamp(min=0)].where(seen.positives_NP != NO_SLOT, -1)
    assert [row.unique().tolist() for row in drawn] == [[label] for label in expected]


class Levels:
    """Stands for the network: a view's prediction is the place of its image."""

    def __init__(self):
        self.sizes = []

    def __call__(self, views, online, predictor, nets, size):
        assert not online.training
        assert not torch.is_grad_enabled()
        self.sizes.append(len(views[0]))
        return torch.stack([view.mean((1, 2, 3))[:, None].expand(-1, 8) for view in views])


@pytest.mark.parametrize("num_images", [1, 5, 11, 12])
def test_images_come_back_in_their_order_and_each_once(npz, monkeypatch, num_images):
    run, config, dataset = subject(npz)
    flat = replace(config.views, crop_probability=0.0, colour=False, solarise=False)
    plain = replace(run.plan.views[0], crop=0.0, jitter=0.0, grey=0.0, solarise=0.0)
    run = replace(run, plan=replace(run.plan, views=[plain] * 3))
    levels = torch.arange(48, dtype=torch.uint8)[:, None, None, None].expand(48, 3, 8, 8).contiguous()
    dataset = replace(dataset, images=levels)
    network = Levels()
    monkeypatch.setattr(gallery, "predictions", network)
    monkeypatch.setattr(gallery, "_TOGETHER", 5)

    def remembered(predictions, given, queue, plan, rng):
        seen = asked(predictions, given, queue, plan, rng)
        return seen._replace(labels_N=(predictions[0, :, 0] * 1000).round().long())

    monkeypatch.setattr(gallery, "asked", remembered)
    index = torch.randperm(48)[:num_images]
    seen = see(run, replace(config, views=flat), dataset, index)
    assert sum(network.sizes) == num_images
    assert max(network.sizes) <= 5
    mean, std = run.plan.mean_3, run.plan.std_3
    expected = ((index[:, None] / 255 - mean) / std).mean(1)
    assert torch.allclose(seen.labels_N / 1000, expected, atol=2e-3)


def seen_views(monkeypatch, *subject_and_index):
    views = []

    def predictions(views_V, *rest):
        views.append(torch.stack(views_V))
        return torch.randn(*views[-1].shape[:2], 8)

    monkeypatch.setattr(gallery, "predictions", predictions)
    see(*subject_and_index)
    return torch.cat(views, dim=1)


def test_views_of_pixels_are_those_of_a_step_with_draws_of_their_own(npz, monkeypatch):
    run, config, dataset = subject(npz)
    index = torch.tensor([40, 3, 17])
    seen = seen_views(monkeypatch, run, config, dataset, index)
    seed, large = stream(config.seed, "gallery"), run.plan.views[:2]
    order = torch.randperm(3, generator=generator(seed, "order/all", 0))
    crops = cut_views(dataset.images[index[order]], large, 2, generator(seed, "geometry", 0))
    rng = generator(seed, "photometric", 0)
    expected = [finish(c, v, run.plan.mean_3, run.plan.std_3, rng) for c, v in zip(crops, large, strict=True)]
    assert torch.equal(seen, torch.stack(expected))


def test_views_of_files_are_cut_from_the_files(class_folders, monkeypatch):
    data = DataConfig(labels_per_class=5, workers=0, feed="streaming")
    run, config, dataset = subject(class_folders, data=data, batch_size=8)
    assert isinstance(dataset.images, ImageFiles)
    index = torch.tensor([30, 3, 17])
    seen = seen_views(monkeypatch, run, config, dataset, index)
    seed, large = stream(config.seed, "gallery"), list(run.plan.views[:2])
    order = torch.randperm(3, generator=generator(seed, "order/all", 0)).tolist()
    cut = [
        cut_image(
            large,
            read_image(dataset.images.path(int(index[place]))),
            generator(seed, f"geometry/{row}/{place}", 0),
        )
        for row, place in enumerate(order)
    ]
    rng = generator(seed, "photometric", 0)
    expected = [
        finish(torch.stack([crops[v] for crops in cut]), view, run.plan.mean_3, run.plan.std_3, rng)
        for v, view in enumerate(large)
    ]
    assert torch.equal(seen, torch.stack(expected))


def test_looking_changes_nothing_and_repeats_itself(npz):
    run, config, dataset = subject(npz)
    before, rng = run.state.snapshot(), torch.get_rng_state()
    index = torch.arange(20)
    one, other = (see(run, config, dataset, index) for _ in range(2))
    assert same(list(one), list(other))
    assert same(before, run.state.state_dict())
    assert all(m.training for m in (*run.state.online.modules(), *run.state.predictor.modules()))
    assert torch.equal(rng, torch.get_rng_state())


def test_whichever_images_training_shows_all_that_are_asked_for_are_seen_alike(npz):
    run, config, dataset = subject(npz)
    index = torch.arange(20)
    one = see(run, config, dataset, index)
    for data in ({"labelled_fraction": 0.5}, {"balance_labels": True}):
        other = see(run, replace(config, data=replace(config.data, **data)), dataset, index)
        assert same(list(one), list(other))


@pytest.mark.parametrize("balanced", [False, True])
def test_who_votes_is_known_by_image(npz, balanced):
    method, data = MethodConfig(positives=2, queue_capacity=4), DataConfig(balance_labels=balanced)
    run, config, dataset = subject(npz, method=method, data=data)
    images = images_in(run, config, dataset)
    assert (images >= 0).all()
    assert torch.equal(dataset.labels_M[images], run.state.queue.labels_C)


def test_a_run_without_a_queue_is_told_so(npz):
    run, config, dataset = subject(npz, method=MethodConfig(positives=0))
    with pytest.raises(ValueError, match="no queue"):
        see(run, config, dataset, torch.arange(3))


def test_modes_come_back_as_they_were_also_after_an_error():
    module = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2))
    module[1].eval()

    def fail():
        with at_rest(module):
            assert not any(m.training for m in module.modules())
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert [m.training for m in module.modules()] == [True, True, False]


def test_votes_are_judged_where_truth_is_known():
    dataset = Dataset(
        name="x",
        images=torch.zeros(6, 3, 1, 1, dtype=torch.uint8),
        labels_M=torch.tensor([0, -1, -1, -1, -1, -1]),
        names=list("abcdef"),
        classes=("p", "q"),
        hidden=HiddenLabels(torch.tensor([0, 1, 1, -1, 0, -1])),
        held_out_M=torch.tensor([-1, -1, -1, -1, -1, 1]),
    )
    index = torch.tensor([0, 1, 2, 3, 4, 5, 5])
    votes = torch.tensor([0, 1, 0, 1, -1, 1, 0])
    # its own label; right; wrong; nothing known; no vote; the user's own word, twice
    assert judged(dataset, index, votes) == [None, 1, 0, None, None, 1, 0]
    assert judged(replace(dataset, hidden=None, held_out_M=None), index, votes) == [None] * 7


def test_withheld_truth_changes_nothing_that_is_seen(npz):
    run, config, dataset = subject(npz)
    other = load_dataset(Request(source=str(npz)))
    other = replace(other, hidden=HiddenLabels(torch.zeros(48, dtype=torch.long)))
    index = torch.arange(48)
    assert same(list(see(run, config, dataset, index)), list(see(run, config, other, index)))


def test_masks_come_along_with_their_images(npz, class_folders, tmp_path):
    index = torch.tensor([30, 3, 17])
    masks = torch.rand(48, 8, 8, generator=torch.Generator().manual_seed(0)) < 0.5
    data = replace(load_dataset(Request(source=str(npz))), masks_MHW=masks)
    assert torch.equal(part_of(data, index).masks_MHW, masks[index])
    files = load_dataset(Request(source=str(class_folders), labels_per_class=1, feed="streaming"))
    found = MaskFiles(tmp_path, Paths("" if i == 3 else f"{i}.png" for i in range(36)))
    part = part_of(replace(files, mask_files=found), index)
    assert [part.mask_files.path(i) for i in range(3)] == [
        str(tmp_path / "30.png"), None, str(tmp_path / "17.png")
    ]  # fmt: skip
    assert part_of(files, index).mask_files is None
