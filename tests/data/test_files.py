import numpy as np
import pytest
import torch
from PIL import Image

from semppl.core.errors import UserError
from semppl.data.files import image_files, read_image


def picture(height=5, width=7, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_images_are_found_at_any_depth_and_nothing_else_is(tmp_path):
    (tmp_path / "a b" / "ü").mkdir(parents=True)
    for name in ("z.png", "a b/1.JPG", "a b/ü/[2].webp"):
        Image.fromarray(picture()).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no image")
    found = [path[len(str(tmp_path)) + 1 :] for path in image_files(tmp_path)]
    assert found == ["a b/1.JPG", "a b/ü/[2].webp", "z.png"]


def test_a_folder_that_is_not_there_or_has_no_image_is_named(tmp_path):
    with pytest.raises(UserError, match=r"nowhere: no such folder"):
        image_files(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"no image found"):
        image_files(tmp_path)


@pytest.mark.parametrize("suffix", ["png", "bmp", "tiff", "webp", "gif"])
def test_pixels_come_as_they_are(tmp_path, suffix):
    pixels = picture() // 64 * 64 if suffix == "gif" else picture()
    path = tmp_path / f"image.{suffix}"
    Image.fromarray(pixels).save(path, **({"lossless": True} if suffix == "webp" else {}))
    image = read_image(str(path))
    assert image.dtype == torch.uint8
    assert np.array_equal(image.permute(1, 2, 0).numpy(), pixels)


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "1"])
def test_every_mode_becomes_three_channels(tmp_path, mode):
    path = tmp_path / "image.png"
    Image.fromarray(picture()).convert(mode).save(path)
    image = read_image(str(path))
    assert image.shape == (3, 5, 7)


def test_a_jpeg_in_cmyk_and_a_wrong_suffix_are_read_too(tmp_path):
    Image.fromarray(picture(16, 16)).convert("CMYK").save(tmp_path / "print.jpg")
    assert read_image(str(tmp_path / "print.jpg")).shape == (3, 16, 16)
    Image.fromarray(picture()).save(tmp_path / "image.tiff")
    (tmp_path / "image.tiff").rename(tmp_path / "image.jpg")
    assert read_image(str(tmp_path / "image.jpg")).shape == (3, 5, 7)


@pytest.mark.parametrize("suffix", ["jpg", "tiff"])
def test_an_image_is_turned_upright(tmp_path, suffix):
    image = Image.new("RGB", (8, 16))
    image.paste((255, 255, 255), (0, 0, 8, 8))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    path = tmp_path / f"image.{suffix}"
    image.save(path, exif=exif)
    upright = read_image(str(path)).float()
    assert upright.shape == (3, 8, 16)
    assert upright[:, :, 12:].mean() > 200 > 50 > upright[:, :, :4].mean()


@pytest.mark.parametrize("content", [b"", b"not an image", b"\xff\xd8\xff\xe0 cut off"])
def test_a_damaged_file_is_named(tmp_path, content):
    path = tmp_path / "broken.jpg"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"broken\.jpg: not a readable image"):
        read_image(str(path))


def test_a_file_that_vanished_is_named(tmp_path):
    with pytest.raises(UserError, match=r"gone\.png: not a readable image"):
        read_image(str(tmp_path / "gone.png"))
