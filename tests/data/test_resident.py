from dataclasses import replace

import pytest
import torch

from semppl.core.rng import uniforms
from semppl.core.share import Share
from semppl.data.order import NATURAL, Mixture
from semppl.data.request import Request
from semppl.data.resident import ResidentFeed
from semppl.data.source import load_dataset

CPU = torch.device("cpu")


def whole(images, masks, rng, rows):
    noise = torch.randint(0, 255, (1,), generator=rng).to(torch.uint8)
    return (images, images[:1] * 0 + noise)


def test_a_batch_holds_the_images_it_names_and_only_visible_labels(npz):
    data = load_dataset(Request(source=str(npz)))
    feed = ResidentFeed(data, whole, batch_size=10, seed=0, device=CPU)
    batch = feed(3)
    assert torch.equal(batch.crops[0], data.images[batch.index_B])
    assert torch.equal(batch.labels_B, data.labels_M[batch.index_B])
    assert batch.oracle_B is None


def test_a_step_is_always_the_same_and_steps_differ(npz):
    data = load_dataset(Request(source=str(npz)))
    feed, again = (ResidentFeed(data, whole, batch_size=10, seed=0, device=CPU) for _ in range(2))
    feed(0)
    assert all(torch.equal(a, b) for a, b in zip(feed(4).crops, again(4).crops, strict=True))
    assert not torch.equal(feed(4).crops[1], feed(5).crops[1])


def test_masks_come_with_their_images(npz):
    data = load_dataset(Request(source=str(npz)))
    masks = torch.zeros(48, 8, 8, dtype=torch.bool)
    masks[:, 0, 0] = True
    seen = []

    def cut(images, masks, rng, rows):
        seen.append(masks)
        return (images,)

    ResidentFeed(replace(data, masks_MHW=masks), cut, batch_size=5, seed=0, device=CPU)(0)
    assert seen[0].sum() == 5


@pytest.mark.parametrize("mixture", [NATURAL, Mixture(0.5), Mixture(0.5, balanced=True)])
def test_shares_are_the_rows_of_the_whole_and_know_all_labels(npz, mixture):
    data = load_dataset(Request(source=str(npz)))

    def cut(images, masks, rng, rows):
        assert len(images) == len(rows)
        return (images, uniforms(1, rows, rng)[0])

    def feed(share):
        return ResidentFeed(data, cut, batch_size=7, seed=0, device=CPU, mixture=mixture, share=share)(2)

    one = feed(Share())
    for world in (2, 3):
        parts = [feed(Share(rank, world)) for rank in range(world)]
        for view in range(2):
            assert torch.equal(torch.cat([part.crops[view] for part in parts]), one.crops[view])
        assert all(torch.equal(part.labels_B, one.labels_B) for part in parts)
        assert all(torch.equal(part.index_B, one.index_B) for part in parts)
