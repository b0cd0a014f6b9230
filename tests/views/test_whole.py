import torch

from semppl.views.geometry import resize_whole
from semppl.views.whole import whole_view

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
