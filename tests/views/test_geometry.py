import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.functional import resized_crop
from torchvision.transforms.v2 import functional as v2

from semppl.core.share import Share
from semppl.views.geometry import crop_resize, cut_image, cut_masked, cut_views, draw_boxes
from semppl.views.masking import Saliency
from semppl.views.recipe import View


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _noise(num_images: int, height: int, width: int, seed: int = 0) -> Tensor:
    shape = (num_images, 3, height, width)
    return torch.randint(0, 256, shape, generator=_generator(seed), dtype=torch.uint8)


def _torchvision(image_CHW: Tensor, box: list[int], size: int) -> Tensor:
    top, left, high, wide = box
    resized = resized_crop(
        image_CHW.float(), top, left, high, wide, [size, size], InterpolationMode.BICUBIC, antialias=True
    )
    return resized.round().clamp(0, 255)


def _disagreement(ours: Tensor, reference: Tensor) -> Tensor:
    return (ours.float() - reference).abs()


@pytest.mark.parametrize("size", [1, 5, 16, 40])
@pytest.mark.parametrize(("height", "width"), [(16, 16), (13, 29), (31, 9)])
def test_each_crop_is_the_one_that_torchvision_cuts_from_its_image_alone(height, width, size):
    boxes = [
        [0, 0, height, width],
        [0, 0, 5, 7],
        [height - 6, width - 4, 6, 4],
        [0, width - 8, 9, 8],
        [height - 3, 0, 3, width],
        [2, 3, 1, 1],
        [1, 2, height - 2, 5],
    ]
    images = _noise(len(boxes), height, width)
    crops = crop_resize(images, torch.tensor(boxes, dtype=torch.float), size)
    reference = torch.stack([_torchvision(x, box, size) for x, box in zip(images, boxes, strict=True)])
    assert crops.dtype == torch.uint8
    assert _disagreement(crops, reference).max() <= 1
    assert _disagreement(crops, reference).mean() < 0.01


@settings(deadline=None, max_examples=25)
@given(data=st.data(), size=st.integers(1, 24))
def test_any_box_gives_what_torchvision_gives_and_nothing_beside_it_leaks_in(data, size):
    height, width = data.draw(st.integers(2, 20)), data.draw(st.integers(2, 20))
    high, wide = data.draw(st.integers(1, height)), data.draw(st.integers(1, width))
    top, left = data.draw(st.integers(0, height - high)), data.draw(st.integers(0, width - wide))
    image = _noise(1, height, width)
    elsewhere = 255 - image
    elsewhere[:, :, top : top + high, left : left + wide] = image[:, :, top : top + high, left : left + wide]
    box_14 = torch.tensor([[top, left, high, wide]], dtype=torch.float)
    crop = crop_resize(image, box_14, size)
    assert _disagreement(crop[0], _torchvision(image[0], [top, left, high, wide], size)).max() <= 1
    assert torch.equal(crop, crop_resize(elsewhere, box_14, size))


def test_a_crop_of_the_very_size_asked_for_is_copied_pixel_by_pixel():
    images = _noise(2, 12, 15)
    crops = crop_resize(images, torch.tensor([[3.0, 4.0, 6.0, 6.0], [6.0, 9.0, 6.0, 6.0]]), 6)
    assert torch.equal(crops[0], images[0, :, 3:9, 4:10])
    assert torch.equal(crops[1], images[1, :, 6:12, 9:15])


def test_only_the_images_told_to_are_flipped_and_only_from_left_to_right():
    images = _noise(4, 10, 14)
    box_B4 = torch.tensor([[0.0, 0.0, 10.0, 14.0], [2.0, 3.0, 5.0, 4.0], [1.0, 0.0, 9.0, 6.0], [0, 5, 3, 9]])
    straight = crop_resize(images, box_B4, 7)
    turned = crop_resize(images, box_B4, 7, torch.tensor([True, False, False, True]))
    assert torch.equal(turned[[1, 2]], straight[[1, 2]])
    assert torch.equal(turned[[0, 3]], straight[[0, 3]].flip(3))
    assert not torch.equal(turned[0], straight[0])


@pytest.mark.parametrize("level", [0, 77, 255])
@pytest.mark.parametrize("size", [4, 33])
def test_a_constant_image_stays_constant_whatever_the_crop(level, size):
    images = torch.full((50, 3, 17, 12), level, dtype=torch.uint8)
    box_B4 = draw_boxes(50, 17, 12, View(size=size, min_area=0.02), _generator())
    assert (crop_resize(images, box_B4, size) == level).all()


def test_channels_do_not_mix():
    images = torch.zeros(1, 3, 9, 9, dtype=torch.uint8)
    images[:, 1] = _noise(1, 9, 9)[:, 0]
    crop = crop_resize(images, torch.tensor([[1.0, 2.0, 6.0, 5.0]]), 8)
    assert crop[:, 1].any()
    assert not crop[:, [0, 2]].any()


@pytest.mark.parametrize(("height", "width"), [(8, 8), (32, 32), (5, 90), (90, 5), (1, 1)])
@pytest.mark.parametrize(("min_area", "max_area"), [(0.001, 1.0), (0.05, 0.14), (1.0, 1.0)])
def test_boxes_are_whole_pixels_inside_the_image(height, width, min_area, max_area):
    view = View(size=8, min_area=min_area, max_area=max_area)
    box_B4 = draw_boxes(2000, height, width, view, _generator())
    top, left, high, wide = box_B4.unbind(1)
    assert torch.equal(box_B4, box_B4.round())
    assert (box_B4 >= 0).all()
    assert high.min() >= 1
    assert wide.min() >= 1
    assert (top + high).max() <= height
    assert (left + wide).max() <= width


def _distance_from_uniform(values: Tensor, low: float, high: float) -> float:
    """Kolmogorov and Smirnov's largest gap between the two distribution functions."""
    share = (values.double().sort().values - low) / (high - low)
    return (share - torch.arange(1, len(values) + 1) / len(values)).abs().max().item()


def test_areas_and_the_logarithms_of_aspects_are_uniform_in_their_ranges():
    view = View(size=8, min_area=0.05, max_area=0.14)
    _, _, high, wide = draw_boxes(20_000, 2000, 3000, view, _generator()).unbind(1)
    assert _distance_from_uniform(high * wide / 6e6, 0.05, 0.14) < 0.02
    assert _distance_from_uniform((wide / high).log() / torch.tensor(4 / 3).log(), -1, 1) < 0.02


def test_each_place_a_crop_can_have_is_as_likely_as_the_others():
    view = View(size=8, min_area=0.25, max_area=0.25)
    top, left, high, wide = draw_boxes(20_000, 8, 8, view, _generator()).unbind(1)
    for start, length in ((top, high), (left, wide)):
        counts = start[length == 4].long().bincount()
        assert len(counts) == 5
        assert (counts / counts.sum() - 0.2).abs().max() < 0.02
    assert abs(torch.corrcoef(torch.stack([top, left]))[0, 1]) < 0.03


def test_a_side_that_exceeds_the_image_is_clamped_and_nothing_is_drawn_again():
    view = View(size=8, min_area=1.0)
    _, _, high, wide = draw_boxes(2000, 10, 40, view, _generator()).unbind(1)
    # sides of 20·√aspect with √aspect from 0.866 to 1.155: too high for the image, never too wide
    assert (high == 10).all()
    assert wide.unique().tolist() == [17, 18, 19, 20, 21, 22, 23]
    _, _, high, wide = draw_boxes(2000, 100, 100, view, _generator()).unbind(1)
    assert ((high == 100) | (wide == 100)).all()
    assert 0.45 < ((high < 100) & (wide == 100)).float().mean() < 0.55
    assert high.min() == 87


def test_without_cropping_every_box_is_the_whole_image():
    box_B4 = draw_boxes(500, 7, 11, View(size=8, min_area=0.1, crop=0.0), _generator())
    assert box_B4.unique(dim=0).tolist() == [[0, 0, 7, 11]]


def test_cropping_half_the_time_leaves_half_of_the_images_whole():
    view = View(size=8, min_area=0.1, max_area=0.3, crop=0.5)
    _, _, high, wide = draw_boxes(4000, 600, 600, view, _generator()).unbind(1)
    whole = (high == 600) & (wide == 600)
    assert 0.47 < whole.float().mean() < 0.53
    assert _distance_from_uniform((high * wide)[~whole] / 360_000, 0.1, 0.3) < 0.04


def test_every_image_of_a_batch_has_its_own_crop_and_flip():
    images = _noise(1, 24, 24).expand(64, -1, -1, -1)
    (crops,) = cut_views(images, [View(size=12, min_area=0.1, max_area=0.5)], 1, _generator())
    assert len(crops.unique(dim=0)) == 64
    (flips,) = cut_views(images, [View(size=24, min_area=0.1, crop=0.0)], 1, _generator())
    mirrored = (flips == images.flip(3)).all(dim=(1, 2, 3))
    upright = (flips == images).all(dim=(1, 2, 3))
    assert (mirrored ^ upright).all()
    assert 16 <= mirrored.sum() <= 48


@pytest.mark.parametrize(("flip", "expected"), [(0.0, False), (1.0, True)])
def test_flips_of_probability_zero_and_one_are_certain(flip, expected):
    images = _noise(20, 6, 6)
    (views,) = cut_views(images, [View(size=6, min_area=0.1, crop=0.0, flip=flip)], 1, _generator())
    assert torch.equal(views, images.flip(3) if expected else images)


def test_the_seed_decides_the_crops_and_each_view_draws_its_own():
    images = _noise(6, 20, 20)
    view = View(size=10, min_area=0.1)
    first, second = cut_views(images, [view, view], 2, _generator(3))
    again_first, again_second = cut_views(images, [view, view], 2, _generator(3))
    other, _ = cut_views(images, [view, view], 2, _generator(4))
    assert torch.equal(first, again_first)
    assert torch.equal(second, again_second)
    assert not torch.equal(first, second)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(("height", "width", "size"), [(20, 20, 9), (6, 11, 16), (8, 5, 8)])
def test_a_whole_image_is_resized_as_torchvision_does(height, width, size):
    images = _noise(3, height, width)
    reference = torch.stack([_torchvision(x, [0, 0, height, width], size) for x in images])
    box = torch.tensor([0.0, 0.0, height, width]).expand(3, 4)
    assert _disagreement(crop_resize(images, box, size), reference).max() <= 1


def _whole(size: int) -> View:
    return View(size=size, min_area=0.5, crop=0.0, flip=0.0)


def test_backgrounds_are_removed_from_large_views_and_never_from_small_ones():
    images = _noise(5, 8, 8)
    masks = torch.zeros(5, 8, 8, dtype=torch.bool)
    masks[:, :, :4] = True
    views = cut_views(
        images, [_whole(8), _whole(8), _whole(8)], 2, _generator(), masks, Saliency(probability=1.0)
    )
    for large in views[:2]:
        assert torch.equal(large[..., :4], images[..., :4])
        background = large[..., 4:].flatten(1)
        assert torch.equal(background, background[:, :1].expand_as(background))
    assert not torch.equal(views[0], views[1])
    assert torch.equal(views[2], images)


def test_without_masks_or_without_the_wish_for_them_backgrounds_stay():
    images = _noise(3, 8, 8)
    masks = torch.zeros(3, 8, 8, dtype=torch.bool)
    masks[:, :4] = True
    (without_masks,) = cut_views(images, [_whole(8)], 1, _generator(), None, Saliency(probability=1.0))
    (without_wish,) = cut_views(images, [_whole(8)], 1, _generator(), masks, None)
    assert torch.equal(without_masks, images)
    assert torch.equal(without_wish, images)


def test_masks_are_applied_before_the_crop_and_follow_its_flip():
    images = _noise(4, 8, 8)
    masks = torch.zeros(4, 8, 8, dtype=torch.bool)
    masks[:, :, :4] = True
    view = View(size=8, min_area=0.5, crop=0.0, flip=1.0)
    (turned,) = cut_views(images, [view], 1, _generator(), masks, Saliency(probability=1.0))
    assert torch.equal(turned[..., 4:], images.flip(3)[..., 4:])
    assert (turned[..., :4] == turned[:, :1, :1, :1]).all()


def test_one_image_is_cut_into_all_views_in_their_order():
    image = torch.randint(256, (3, 40, 60), generator=_generator(), dtype=torch.uint8)
    views = [
        View(size=16, min_area=0.3),
        View(size=8, min_area=0.1, max_area=0.2),
        View(size=70, min_area=0.5),
    ]
    crops = cut_image(views, image, _generator(1))
    assert [crop.shape for crop in crops] == [(3, 16, 16), (3, 8, 8), (3, 70, 70)]
    again = cut_image(views, image, _generator(1))
    assert all(torch.equal(a, b) for a, b in zip(crops, again, strict=True))
    assert not torch.equal(crops[0], cut_image(views, image, _generator(2))[0])


def test_one_image_and_a_batch_have_boxes_and_flips_of_the_same_kind():
    ramp = torch.arange(200).view(1, 1, 200).expand(3, 100, 200).to(torch.uint8)
    view = View(size=32, min_area=0.2, max_area=0.6, flip=0.5)
    alone = torch.stack([cut_image([view], ramp, _generator(i))[0] for i in range(400)]).float()
    (together,) = cut_views(ramp.expand(400, -1, -1, -1), [view], 1, _generator())
    for look in (lambda x: x.mean((1, 2, 3)), lambda x: (x[:, 0, 0, -1] - x[:, 0, 0, 0]).abs()):
        one, other = look(alone).sort().values, look(together.float()).sort().values
        assert (one - other).abs().mean() < 6
    flipped = (alone[:, 0, 0, -1] < alone[:, 0, 0, 0]).float().mean()
    assert 0.4 < flipped < 0.6


def test_a_whole_image_and_no_flip_is_torchvisions_resize():
    image = torch.randint(256, (3, 30, 50), generator=_generator(), dtype=torch.uint8)
    (crop,) = cut_image([View(size=20, min_area=0.1, crop=0.0, flip=0.0)], image, _generator())
    expected = v2.resize(image, [20, 20], InterpolationMode.BICUBIC, antialias=True)
    assert torch.equal(crop, expected)


def test_large_crops_on_a_cpu_are_torchvisions_and_small_ones_agree_with_them():
    images = torch.randint(256, (3, 3, 80, 90), generator=_generator(), dtype=torch.uint8)
    box_B4 = torch.tensor([[3.0, 4.0, 60.0, 70.0], [0, 0, 80, 90], [10, 10, 20, 30]])
    flip_B = torch.tensor([True, False, True])
    for size in (63, 64):
        crops = crop_resize(images, box_B4, size, flip_B)
        rows = zip(images, box_B4.int().tolist(), flip_B.tolist(), strict=True)
        for crop, (image, box, flip) in zip(crops, rows, strict=True):
            expected = v2.resized_crop(image, *box, [size, size], InterpolationMode.BICUBIC, antialias=True)
            expected = expected.flip(2) if flip else expected
            difference = (crop.float() - expected.float()).abs()
            # torchvision rounds and clips between its two passes; noise is the worst that it can meet
            assert difference.mean() < (0.5 if size < 64 else 1e-9)


@pytest.mark.parametrize("masked", [False, True])
def test_the_crops_of_shares_are_those_of_the_whole(masked):
    images = torch.randint(0, 256, (7, 3, 9, 11), generator=_generator(1), dtype=torch.uint8)
    masks = torch.rand(7, 9, 11, generator=_generator(2)) < 0.5 if masked else None
    views, saliency = [View(size=8, min_area=0.1), View(size=5, min_area=0.1)], Saliency(probability=0.7)

    def cut(rows):
        mine = slice(None) if rows is None else rows.slice
        part = None if masks is None else masks[mine]
        return cut_views(images[mine], views, 1, _generator(4), part, saliency, rows=rows)

    whole = cut(None)
    parts = [cut(Share(rank, 3).rows(7)) for rank in range(3)]
    for view in range(2):
        assert torch.equal(torch.cat([part[view] for part in parts]), whole[view])


_LARGE, _SMALL = View(size=16, min_area=0.3), View(size=8, min_area=0.1, max_area=0.3)
_VIEWS = [_LARGE, _LARGE, _SMALL]


def _paired(height: int, width: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """An image and a mask: its upper half is foreground."""
    mask = torch.zeros(height, width, dtype=torch.bool)
    mask[: max(height // 2, 1)] = True
    image = torch.randint(256, (3, height, width), generator=_generator(seed), dtype=torch.uint8)
    return image, mask


def _check_only_removed_pixels_differ(with_masks, without, shown):
    """`shown` are the same views of the mask: 255 where a crop has seen foreground alone."""
    for one, other, seen in zip(with_masks, without, shown, strict=True):
        assert torch.equal(one[seen == 255], other[seen == 255])


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_masks_change_no_box_and_no_flip_of_a_batch(probability):
    pairs = [_paired(24, 20, seed) for seed in range(40)]
    images, masks = (torch.stack(parts) for parts in zip(*pairs, strict=True))
    saliency = Saliency(probability=probability)
    without = cut_views(images, _VIEWS, 2, _generator(5))
    masked = cut_views(images, _VIEWS, 2, _generator(5), masks, saliency)
    for view in range(3):
        same = (masked[view] == without[view]).flatten(1).all(1)
        if view == 2 or probability == 0:
            assert same.all()
        elif probability == 1:
            assert not same.all()
    shown = cut_views(_solid(masks), _VIEWS, 2, _generator(5))
    assert all(0.1 < (seen == 255).float().mean() < 0.9 for seen in shown)
    _check_only_removed_pixels_differ(masked, without, shown)


def _solid(masks_BHW: torch.Tensor) -> torch.Tensor:
    """Masks as images, without the three rows before their edge: a bicubic weight reaches no further."""
    inner = masks_BHW & masks_BHW.roll(-3, 1)
    return (inner.to(torch.uint8) * 255)[:, None].expand(-1, 3, -1, -1).contiguous()


def test_with_masks_shapes_alone_decide_what_is_done_on_a_device():
    """Tensors without content refuse every question that a GPU would make the host wait for."""
    images = torch.empty(5, 3, 70, 90, dtype=torch.uint8, device="meta")
    masks = torch.empty(5, 70, 90, dtype=torch.bool, device="meta")
    views = [View(size=size, min_area=0.1) for size in (80, 80, 20)]
    crops = cut_views(images, views, 2, _generator(), masks, Saliency(probability=0.5))
    assert [crop.shape[2] for crop in crops] == [80, 80, 20]
    assert {(crop.device.type, crop.dtype) for crop in crops} == {("meta", torch.uint8)}


def test_a_masked_batch_lies_in_memory_as_its_images_do():
    """What cuts them may be compiled for one layout."""
    images, masks = torch.zeros(3, 3, 8, 6, dtype=torch.uint8), torch.zeros(3, 8, 6, dtype=torch.bool)
    seen = []

    def resize(source, box_B4, size, flip_B):
        seen.append((source.shape, source.stride(), source.dtype))
        return source

    cut_views(images, _VIEWS, 2, _generator(), masks, Saliency(probability=1.0), resize)
    assert set(seen) == {(images.shape, images.stride(), images.dtype)}
    assert len(seen) == len(_VIEWS)


def test_masks_that_are_all_foreground_change_nothing():
    images = _noise(12, 24, 20)
    masks = torch.ones(12, 24, 20, dtype=torch.bool)
    without = cut_views(images, _VIEWS, 2, _generator(5))
    masked = cut_views(images, _VIEWS, 2, _generator(5), masks, Saliency(probability=1.0))
    assert all(torch.equal(a, b) for a, b in zip(masked, without, strict=True))


@pytest.mark.parametrize(("height", "width"), [(24, 20), (1, 9), (30, 1), (40, 57)])
def test_masks_change_no_box_and_no_flip_of_one_image(height, width):
    image, mask = _paired(height, width, 3)
    saliency = Saliency(probability=0.5)
    differ = torch.zeros(3)
    for seed in range(30):
        without = cut_image(_VIEWS, image, _generator(seed))
        masked = cut_masked(_VIEWS, 2, saliency, image, _generator(seed), lambda: mask)
        shown = cut_image(_VIEWS, _solid(mask[None])[0], _generator(seed))
        _check_only_removed_pixels_differ(masked, without, shown)
        differ += torch.tensor([not torch.equal(a, b) for a, b in zip(masked, without, strict=True)])
    assert differ[2] == 0
    if height > 1:
        assert (differ[:2] > 5).all()


def test_a_mask_is_looked_at_only_if_a_coin_wants_it():
    image, mask = _paired(24, 20, 3)
    looks = []

    def look():
        looks.append(1)
        return mask

    def cut(probability, seed):
        return cut_masked(_VIEWS, 2, Saliency(probability=probability), image, _generator(seed), look)

    for seed in range(20):
        cut(0.0, seed)
    assert not looks
    for seed in range(300):
        cut(0.1, seed)
    # one of two coins: 0.19
    assert 35 < len(looks) < 80
    looks.clear()
    cut(1.0, 0)
    assert len(looks) == 1, "one look is enough for all views"


@pytest.mark.parametrize("mask", [None, torch.ones(24, 20, dtype=torch.bool), torch.zeros(24, 20) > 0])
def test_an_image_stays_if_its_mask_cannot_be_had_or_is_all_one(mask):
    image, _ = _paired(24, 20, 3)
    # as a file is read: pixel by pixel
    image = image.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    masked = cut_masked(_VIEWS, 2, Saliency(probability=1.0), image, _generator(1), lambda: mask)
    without = cut_image(_VIEWS, image, _generator(1))
    assert all(torch.equal(a, b) for a, b in zip(masked, without, strict=True))


def test_the_background_of_one_image_is_one_grey_for_each_view_and_goes_before_the_crop():
    image, mask = _paired(8, 8, 3)
    views = [_whole(8), _whole(8), _whole(8)]
    greys = [[], []]
    for seed in range(60):
        crops = cut_masked(views, 2, Saliency(probability=1.0), image, _generator(seed), lambda: mask)
        assert torch.equal(crops[2], image)
        for grey, crop in zip(greys, crops, strict=False):
            assert torch.equal(crop[:, :4], image[:, :4])
            (level,) = crop[:, 4:].unique().tolist()
            grey.append(level)
    assert len(set(greys[0])) > 40
    assert sum(a == b for a, b in zip(*greys, strict=True)) < 5


def test_the_coin_of_a_view_says_nothing_of_its_grey():
    image, mask = _paired(8, 8, 3)
    rare = Saliency(probability=0.2)
    levels = []
    for seed in range(200):
        in_batch = cut_views(image[None], [_whole(8)], 1, _generator(seed), mask[None], rare)[0][0]
        (alone,) = cut_masked([_whole(8)], 1, rare, image, _generator(seed), lambda: mask)
        levels += [float(crop[0, 4, 0]) for crop in (in_batch, alone) if not torch.equal(crop, image)]
    assert 40 < len(levels) < 120
    assert 100 < sum(levels) / len(levels) < 156, "all levels alike have a mean of 127.5"
