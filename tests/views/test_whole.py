import pytest
import torch

from semppl.views.whole import fitted_crop, framed_crop, ready_crop, resized_side, whole_crop, whole_view

MEAN, STD = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.5, 1.0, 2.0])


def test_pixels_are_normalised_by_channel():
    crops = torch.randint(256, (5, 3, 4, 4), dtype=torch.uint8)
    view = whole_view(crops, MEAN, STD)
    for c in range(3):
        assert torch.allclose(view[:, c], (crops[:, c] / 255 - MEAN[c]) / STD[c])


def test_an_image_of_the_right_size_stays_as_it_is():
    images = torch.randint(256, (5, 3, 8, 8), dtype=torch.uint8)
    assert torch.equal(whole_crop(8, images), images)


@pytest.mark.parametrize("size", [5, 96])
def test_many_images_are_cropped_as_each_by_itself(size):
    images = torch.randint(256, (3, 3, 20, 33), dtype=torch.uint8)
    assert torch.equal(whole_crop(size, images), torch.stack([whole_crop(size, image) for image in images]))


@pytest.mark.parametrize("shape", [(1, 1), (5, 40), (40, 5), (1, 3000), (97, 97)])
@pytest.mark.parametrize("size", [8, 96])
def test_one_image_of_any_shape_becomes_a_square(shape, size):
    image = torch.full((3, *shape), 77, dtype=torch.uint8)
    crop = whole_crop(size, image)
    assert crop.shape == (3, size, size)
    assert crop.dtype == torch.uint8
    assert (crop == 77).all()


def test_the_middle_is_kept():
    image = torch.zeros(3, 20, 60, dtype=torch.uint8)
    image[:, :, 20:40] = 200
    assert (whole_crop(20, image) == 200).all()
    # from 96 px on the outermost eighth is cut away, as 256 → 224
    frame = torch.full((3, 110, 110), 200, dtype=torch.uint8)
    frame[:, :5] = 0
    assert whole_crop(96, frame).min() > 150


def test_images_that_were_cut_already_keep_their_pixels():
    images = torch.randint(256, (3, 112, 112), dtype=torch.uint8)
    assert torch.equal(ready_crop(112, images), images), "no margin is cut away"
    assert not torch.equal(whole_crop(112, images), images)
    wide = torch.randint(256, (3, 112, 130), dtype=torch.uint8)
    assert torch.equal(ready_crop(112, wide), wide[:, :, 9:121])
    larger = torch.randint(256, (3, 200, 150), dtype=torch.uint8)
    assert torch.equal(ready_crop(112, larger), whole_crop(112, larger))


def test_a_frame_is_cut_off_before_anything_else():
    inside = torch.randint(256, (3, 20, 24), dtype=torch.uint8)
    framed = torch.zeros(3, 24, 28, dtype=torch.uint8)
    framed[:, 2:-2, 2:-2] = inside
    assert torch.equal(framed_crop(8, 2, framed), whole_crop(8, inside))
    tiny = torch.full((3, 4, 4), 7, dtype=torch.uint8)
    assert torch.equal(framed_crop(4, 2, tiny), tiny), "nothing would be left of it"


def test_the_fitted_crop_is_the_middle_square_with_its_margin():
    image = torch.zeros(3, 112, 120, dtype=torch.uint8)
    image[:, :, 4:116] = torch.randint(256, (3, 112, 112), dtype=torch.uint8)
    assert torch.equal(fitted_crop(112, image), image[:, :, 4:116])
    assert fitted_crop(10, image).shape == (3, 10, 10)
    assert fitted_crop(10, image.expand(2, 3, 112, 120)).shape == (2, 3, 10, 10)


def test_the_side_before_the_margin_is_cut_away():
    assert [resized_side(size) for size in (8, 95, 96, 224)] == [8, 95, 110, 256]
