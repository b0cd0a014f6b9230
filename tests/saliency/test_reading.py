from hashlib import blake2b

import numpy as np
import pytest
from PIL import Image
from tests.saliency.stubs import save

from semppl.core.errors import UserError
from semppl.data import files
from semppl.saliency import reading
from semppl.saliency.reading import at_work, content_of, full_size, pixels_of, resized, square


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def test_the_content_of_a_file_is_that_of_its_bytes_whatever_its_name(tmp_path):
    for name in ("a.jpg", "b.png"):
        (tmp_path / name).write_bytes(b"bytes")
        assert content_of(str(tmp_path / name)) == blake2b(b"bytes", digest_size=16).hexdigest()


def test_the_content_of_an_array_is_its_shape_and_its_numbers():
    image = noise(4, 6)
    assert content_of(image) == content_of(image.copy())
    assert content_of(image) == content_of(image[:, ::-1][:, ::-1])
    assert content_of(image) != content_of(image.reshape(6, 4, 3))
    assert content_of(image) != content_of(image ^ 1)


def test_pixels_come_from_files_and_arrays_alike(tmp_path):
    image = noise(5, 7)
    path = save(tmp_path / "a.png", image)
    np.testing.assert_array_equal(pixels_of(str(path)), image)
    np.testing.assert_array_equal(pixels_of(image), image)
    (tmp_path / "bad.png").write_bytes(b"no")
    with pytest.raises(UserError, match="not a readable image"):
        pixels_of(str(tmp_path / "bad.png"))


def test_the_mask_of_an_image_that_is_read_smaller_has_the_size_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "SHRUNK_ABOVE", 1000)
    monkeypatch.setattr(reading, "SHRUNK_ABOVE", 1000)
    path = str(save(tmp_path / "a.png", noise(60, 40)))
    pixels = pixels_of(path)
    assert pixels.shape == (30, 20, 3)
    assert full_size(path, pixels) == (60, 40)
    assert full_size(pixels, pixels) == (30, 20)


def test_the_size_is_that_of_the_upright_image(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "SHRUNK_ABOVE", 8)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(noise(20, 10)).save(tmp_path / "a.jpg", exif=exif)
    path = str(tmp_path / "a.jpg")
    assert pixels_of(path).shape[:2] == full_size(path, pixels_of(path)) == (10, 20)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((256, 256), (256, 256)),
        ((200, 150), (200, 150)),
        ((512, 384), (256, 192)),
        ((300, 1000), (77, 256)),
        ((32, 32), (128, 128)),
        ((8, 4), (128, 64)),
        ((1, 1), (128, 128)),
        ((1, 1000), (1, 256)),
        ((1000, 1), (256, 1)),
    ],
)
def test_estimators_see_a_long_side_from_128_to_256(size, expected):
    seen = at_work(noise(*size))
    assert seen.shape == (*expected, 3)
    assert seen.dtype == np.uint8


def test_the_network_sees_a_square_with_channels_first():
    image = noise(16, 16)
    np.testing.assert_array_equal(square(image, 16), image.transpose(2, 0, 1))
    assert square(noise(40, 7), 16).shape == (3, 16, 16)
    assert square(noise(1, 300), 16).flags.c_contiguous


def test_what_shrinks_is_the_mean_of_areas():
    image = noise(12, 8).astype(np.float32)
    blocks = image.reshape(4, 3, 4, 2, 3).mean((1, 3))
    np.testing.assert_allclose(resized(image, (4, 4)), blocks, rtol=1e-5)
    # one side shrinks, the other grows
    wide = resized(image, (4, 16))
    np.testing.assert_allclose(wide[:, 0], image.reshape(4, 3, 8, 3).mean(1)[:, 0], rtol=1e-5)


def test_what_grows_is_bilinear_and_what_fits_is_left_alone():
    ramp = np.array([[0.0, 4.0]], np.float32)
    np.testing.assert_allclose(resized(ramp, (1, 4)), [[0, 1, 3, 4]])
    assert resized(ramp, (1, 2)) is ramp
