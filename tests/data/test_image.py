import numpy as np
import pytest
import torch
from PIL import Image

from semppl.core.errors import UserError
from semppl.data.image import read_image


def test_an_image_comes_channels_first_and_lies_pixel_by_pixel(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "image.png")
    image = read_image(str(tmp_path / "image.png"))
    assert image.dtype == torch.uint8
    assert image.shape == (3, 5, 7)
    assert image.permute(1, 2, 0).is_contiguous()
    assert np.array_equal(image.permute(1, 2, 0).numpy(), pixels)


def test_a_file_that_is_no_image_is_named(tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"not an image")
    with pytest.raises(UserError, match=r"broken\.jpg: not a readable image \(not an image\)$"):
        read_image(str(tmp_path / "broken.jpg"))
