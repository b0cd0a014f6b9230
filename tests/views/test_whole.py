import pytest
import torch

from semppl.views.geometry import resize_whole
from semppl.views.whole import whole_crop, whole_view

MEAN, STD = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.5, 1.0, 2.0])


def test_an_image_of_the_right_size_is_only_normalised():
    images = torch.randint(256, (5, 3, 4, 4), dtype=torch.uint8)
    for n in range(5):
        for c in range(3):
            expected = (images[n, c].double() / 255 - MEAN[c]) / STD[c]
            torch.testing.assert_close(
                whole_view(images, 4, MEAN, STD)[n, c].double(), expected, atol=1e-6, rtol=0
            )


def test_another_size_is_resized_as_a_whole():
    images = torch.randint(256, (2, 3, 6, 9), dtype=torch.uint8)
    same_size = whole_view(resize_whole(images, 4), 4, MEAN, STD)
    assert torch.equal(whole_view(images, 4, MEAN, STD), same_size)


def test_looking_changes_nothing():
    images = torch.randint(256, (2, 3, 4, 4), dtype=torch.uint8)
    before = images.clone()
    whole_view(images, 4, MEAN, STD)
    assert torch.equal(images, before)


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
