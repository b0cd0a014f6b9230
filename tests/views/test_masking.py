import pytest
import torch
from torch import Tensor

from semppl.views.masking import Saliency, fill_background, grey_levels, mask_background, removable


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _noise(num_images: int, side: int = 6) -> Tensor:
    shape = (num_images, 3, side, side)
    return torch.randint(0, 256, shape, generator=_generator(9), dtype=torch.uint8)


def _left_half(num_images: int, side: int = 6) -> Tensor:
    masks = torch.zeros(num_images, side, side, dtype=torch.bool)
    masks[:, :, : side // 2] = True
    return masks


_ALWAYS = Saliency(probability=1.0)


def test_the_background_becomes_one_grey_and_the_foreground_stays():
    images = _noise(4)
    masks = torch.rand(4, 6, 6, generator=_generator()) < 0.6
    masked = mask_background(images, masks, _ALWAYS, _generator())
    assert masked.dtype == torch.uint8
    for before, after, mask in zip(images, masked, masks, strict=True):
        assert torch.equal(after[:, mask], before[:, mask])
        assert len(after[:, ~mask].unique()) == 1


def test_images_of_a_batch_and_later_views_have_greys_of_their_own():
    images, masks, generator = _noise(30), _left_half(30), _generator()
    first = mask_background(images, masks, _ALWAYS, generator)[:, 0, 0, -1]
    second = mask_background(images, masks, _ALWAYS, generator)[:, 0, 0, -1]
    assert len(first.unique()) > 20
    assert (first != second).float().mean() > 0.8


@pytest.mark.parametrize(("side", "foreground"), [(5, 5), (10, 20), (15, 45), (35, 245)])
def test_exactly_a_fifth_of_foreground_is_enough_and_a_pixel_less_is_not(side, foreground):
    images = _noise(1, side)
    masks = torch.zeros(2, side * side, dtype=torch.bool)
    masks[0, :foreground] = True
    masks[1, : foreground - 1] = True
    masked = mask_background(images.expand(2, -1, -1, -1), masks.view(2, side, side), _ALWAYS, _generator())
    assert not torch.equal(masked[0], images[0])
    assert torch.equal(masked[1], images[0])


def test_the_share_that_is_enough_can_be_chosen():
    images, masks = _noise(1), _left_half(1)
    for share, applied in ((0.0, True), (0.5, True), (0.51, False)):
        saliency = Saliency(probability=1.0, min_foreground=share)
        masked = mask_background(images, masks, saliency, _generator())
        assert torch.equal(masked, images) is not applied


def test_an_image_that_is_all_foreground_stays():
    images = _noise(3)
    masks = torch.ones(3, 6, 6, dtype=torch.bool)
    assert torch.equal(mask_background(images, masks, _ALWAYS, _generator()), images)


def test_probability_zero_never_masks():
    images = _noise(50)
    saliency = Saliency(probability=0.0)
    assert torch.equal(mask_background(images, _left_half(50), saliency, _generator()), images)


def test_masks_are_applied_to_each_image_independently_and_with_any_grey():
    images = torch.zeros(6000, 3, 2, 2, dtype=torch.uint8)
    images[:, 0] = 255
    masked = mask_background(images, _left_half(6000, 2), Saliency(), _generator())
    background = masked[:, :, 0, 1].float()
    applied = background[:, 0] == background[:, 1]
    assert 0.08 < applied.float().mean() < 0.12
    again = mask_background(images, _left_half(6000, 2), Saliency(), _generator(1))[:, :, 0, 1]
    assert 0.0 < (applied & (again[:, 0] == again[:, 1])).float().mean() < 0.03
    greys = background[applied, 0].sort().values
    assert (greys - torch.linspace(0, 255, len(greys))).abs().max() < 20


def test_the_images_given_are_not_changed():
    images = _noise(4)
    before = images.clone()
    masked = mask_background(images, _left_half(4), _ALWAYS, _generator())
    assert not torch.equal(masked, images)
    assert torch.equal(images, before)


def test_the_seed_decides_which_images_are_masked_and_how():
    images, masks, saliency = _noise(40), _left_half(40), Saliency(probability=0.5)
    first = mask_background(images, masks, saliency, _generator(1))
    assert torch.equal(first, mask_background(images, masks, saliency, _generator(1)))
    assert not torch.equal(first, mask_background(images, masks, saliency, _generator(2)))


def test_an_image_that_is_all_background_stays():
    images = _noise(3)
    masks = torch.zeros(3, 6, 6, dtype=torch.bool)
    assert torch.equal(mask_background(images, masks, _ALWAYS, _generator()), images)


def test_images_of_one_column_and_batches_of_none_have_masks_too():
    images = torch.arange(10, dtype=torch.uint8).view(1, 1, 10, 1).expand(1, 3, 10, 1)
    masks = (torch.arange(10) < 2).view(1, 10, 1)
    masked = mask_background(images, masks, _ALWAYS, _generator())
    assert masked[0, :, :2].tolist() == [[[0], [1]]] * 3
    assert len(masked[0, :, 2:].unique()) == 1
    assert removable(torch.ones(0, 4, 4, dtype=torch.bool), _ALWAYS).shape == (0, 4, 4)


def test_foreground_is_counted_exactly_where_single_precision_cannot():
    # 2²⁴ + 2 pixels: a fifth of them is no float32 any more
    masks = torch.zeros(1, 2, 2**23 + 1, dtype=torch.bool)
    least = -(-masks.numel() // 5)
    masks.view(-1)[:least] = True
    assert removable(masks, _ALWAYS).any()
    masks.view(-1)[0] = False
    assert not removable(masks, _ALWAYS).any()


def test_hand_made_draws_say_which_background_goes_and_what_comes():
    images = torch.full((3, 3, 1, 2), 7, dtype=torch.uint8)
    background = torch.tensor([[[False, True]]]).expand(3, 1, 2)
    draws = torch.tensor([[0.0, 0.0999, 0.1], [0.5, 0.999999, 0.5]])
    filled = fill_background(images, background, draws, Saliency(probability=0.1))
    assert filled[:, :, 0, 1].tolist() == [[128] * 3, [255] * 3, [7] * 3]
    assert (filled[..., 0] == 7).all()
    assert grey_levels(torch.tensor([0.0, 1 / 256, 0.25])).tolist() == [0, 1, 64]
