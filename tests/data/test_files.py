import io
import struct
import threading
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image, ImageFile

from semppl.core.errors import UserError
from semppl.data import files
from semppl.data.files import FileFacts, check_file, image_files, read_pixels


def picture(height=5, width=7, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def encoded(suffix, pixels=None, **options):
    file = io.BytesIO()
    Image.fromarray(picture() if pixels is None else pixels).save(file, suffix, **options)
    return file.getvalue()


def put(folder, name, content):
    (folder / name).write_bytes(content)
    return str(folder / name)


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


@pytest.fixture
def decoded(monkeypatch):
    """Paths of the files whose pixels were decoded."""
    seen, decode = [], files._decode
    monkeypatch.setattr(files, "_decode", lambda path: seen.append(path) or decode(path))
    return seen


def test_paths_are_sorted_and_joined(tmp_path):
    for name in ("b [1].png", "猫.png", "a.JPG"):
        put(tmp_path, name, b"")
    assert image_files(tmp_path) == [f"{tmp_path}/{name}" for name in ("a.JPG", "b [1].png", "猫.png")]


@pytest.mark.parametrize("suffix", ["png", "bmp", "tiff", "webp", "gif"])
def test_pixels_come_as_they_are(tmp_path, suffix):
    pixels = picture() // 64 * 64 if suffix == "gif" else picture()
    options = {"lossless": True} if suffix == "webp" else {}
    path = put(tmp_path, f"猫 [1].{suffix}", encoded(suffix, pixels, **options))
    found = read_pixels(path)
    assert found.dtype == np.uint8
    assert found.flags.c_contiguous
    assert found.flags.writeable
    assert np.array_equal(found, pixels)
    assert check_file(path) == FileFacts(7, 5)


def test_a_single_pixel_is_an_image(tmp_path):
    path = put(tmp_path, "dot.png", encoded("png", np.array([[[1, 2, 3]]], dtype=np.uint8)))
    assert read_pixels(path).tolist() == [[[1, 2, 3]]]
    assert check_file(path) == FileFacts(1, 1)


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "1"])
def test_every_mode_becomes_three_channels(tmp_path, mode):
    Image.fromarray(picture()).convert(mode).save(tmp_path / "image.png")
    assert read_pixels(str(tmp_path / "image.png")).shape == (5, 7, 3)


def test_print_colours_become_those_of_a_screen(tmp_path):
    Image.new("CMYK", (16, 8), (0, 255, 255, 0)).save(tmp_path / "print.jpg", quality=100)
    red = read_pixels(str(tmp_path / "print.jpg")).reshape(-1, 3)
    assert np.abs(red.astype(int) - [255, 0, 0]).max() < 4


def test_transparency_lies_over_white(tmp_path):
    values = [[[10, 20, 30, 255], [10, 20, 30, 0], [0, 100, 200, 51]]]
    put(tmp_path, "rgba.png", encoded("png", np.array(values, dtype=np.uint8)))
    # a fifth of the colour and four of white
    expected = [[[10, 20, 30], [255, 255, 255], [204, 224, 244]]]
    assert read_pixels(str(tmp_path / "rgba.png")).tolist() == expected
    grey = Image.fromarray(np.array([[[7, 255], [7, 0], [0, 51]]], dtype=np.uint8))
    assert grey.mode == "LA"
    grey.save(tmp_path / "la.png")
    assert read_pixels(str(tmp_path / "la.png"))[0, :, 0].tolist() == [7, 255, 204]


def test_a_palette_may_have_transparent_entries(tmp_path):
    image = Image.fromarray(np.array([[0, 1, 2]], dtype=np.uint8)).convert("P")
    image.putpalette([9, 9, 9, 1, 2, 3, 0, 100, 200])
    image.save(tmp_path / "one.png", transparency=0)
    assert read_pixels(str(tmp_path / "one.png")).tolist() == [[[255] * 3, [1, 2, 3], [0, 100, 200]]]
    image.save(tmp_path / "each.png", transparency=bytes([0, 255, 51]))
    assert read_pixels(str(tmp_path / "each.png")).tolist() == [[[255] * 3, [1, 2, 3], [204, 224, 244]]]
    Image.new("RGB", (2, 1), (1, 2, 3)).save(tmp_path / "colour.png", transparency=(1, 2, 3))
    assert (read_pixels(str(tmp_path / "colour.png")) == 255).all()


def test_the_first_frame_of_a_gif_counts(tmp_path):
    frames = [Image.new("P", (4, 3), value) for value in (0, 1)]
    for frame in frames:
        frame.putpalette([200, 100, 0, 0, 0, 250])
    path = tmp_path / "moving.gif"
    frames[0].save(path, save_all=True, append_images=frames[1:])
    assert (read_pixels(str(path)) == [200, 100, 0]).all()
    assert check_file(str(path)) == FileFacts(4, 3)


@pytest.mark.parametrize("suffix", ["png", "tiff"])
def test_sixteen_bits_lose_their_lower_byte(tmp_path, suffix):
    values = np.array([[0, 255, 256, 0x1234, 65535]], dtype=np.uint16)
    path = put(tmp_path, f"deep.{suffix}", encoded(suffix, values))
    assert read_pixels(path)[0].tolist() == [[value] * 3 for value in (0, 0, 1, 0x12, 255)]
    assert check_file(path) == FileFacts(5, 1)


@pytest.mark.parametrize("suffix", ["png", "tiff"])
def test_sixteen_bits_of_which_eight_are_used_keep_them(tmp_path, suffix):
    path = put(tmp_path, f"dim.{suffix}", encoded(suffix, np.array([[0, 7, 255]], dtype=np.uint16)))
    assert read_pixels(path)[0, :, 0].tolist() == [0, 7, 255]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 7, 255], [0, 7, 255]),
        ([0, 255, 256, 65535], [0, 0, 1, 255]),
        ([-5, 0, 2**24, 2**31 - 1], [0, 0, 2, 255]),
        ([-5, -1], [0, 0]),
    ],
)
def test_integers_of_four_bytes_are_scaled_if_they_must(tmp_path, values, expected):
    path = put(tmp_path, "int.tiff", encoded("tiff", np.array([values], dtype=np.int32)))
    assert read_pixels(path)[0, :, 0].tolist() == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([-1.0, 0.0, 1.0], [0, 128, 255]),
        ([3.0, 3.0], [0, 0]),
        ([np.nan, 0.0, 1.0, np.inf, -np.inf], [0, 0, 255, 255, 0]),
        ([np.nan, np.inf], [0, 0]),
        ([-3e38, 3e38], [0, 255]),
        ([0.0, 1e-45], [0, 255]),
    ],
)
def test_floats_are_stretched(tmp_path, values, expected):
    path = put(tmp_path, "float.tiff", encoded("tiff", np.array([values], dtype=np.float32)))
    assert read_pixels(path)[0, :, 0].tolist() == expected


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["png", "webp", "tiff", "jpeg"])
def test_an_image_is_turned_upright(tmp_path, suffix, orientation):
    upright = np.zeros((16, 32, 3), dtype=np.uint8)
    upright[:8, :8], upright[8:, :8], upright[:8, 24:] = (250, 0, 0), (0, 250, 0), (0, 0, 250)
    # how a camera that lies like this stores it
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.swapaxes(0, 1),
        6: np.rot90(upright),
        7: np.rot90(upright, 2).swapaxes(0, 1),
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"webp": {"lossless": True}, "jpeg": {"quality": 100, "subsampling": 0}}.get(suffix, {})
    path = put(
        tmp_path, f"image.{suffix}", encoded(suffix, np.ascontiguousarray(stored), exif=exif, **options)
    )
    assert np.abs(read_pixels(path).astype(int) - upright).max() < 8
    assert check_file(path) == FileFacts(32, 16)


def test_notes_that_cannot_be_read_make_no_image_unreadable(tmp_path):
    path = put(tmp_path, "odd.jpg", encoded("jpeg", exif=b"Exif\0\0II*\0\xff\xff\xff\xff"))
    assert read_pixels(path).shape == (5, 7, 3)
    assert check_file(path) == FileFacts(7, 5)


def test_a_suffix_may_lie(tmp_path):
    path = put(tmp_path, "image.jpg", encoded("tiff"))
    assert np.array_equal(read_pixels(path), picture())
    assert check_file(path) == FileFacts(7, 5)


@pytest.mark.parametrize("suffix", ["jpeg", "png", "tiff", "webp", "bmp", "gif"])
def test_a_file_that_is_cut_off_is_bad_wherever_it_is_cut(tmp_path, suffix):
    whole = encoded(suffix, picture(40, 40))
    for length in (len(whole) // 2, len(whole) - 40):
        path = put(tmp_path, f"cut.{suffix}", whole[:length])
        facts = check_file(path)
        assert facts.problem
        with pytest.raises(UserError, match=rf"cut\.{suffix}: not a readable image \(.+\)$") as caught:
            read_pixels(path)
        assert str(caught.value).endswith(f"({facts.problem})")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", ["jpeg", "png", "webp", "bmp", "gif"])
def test_a_whole_file_is_checked_without_its_pixels(tmp_path, decoded, suffix):
    path = put(tmp_path, f"image.{suffix}", encoded(suffix))
    assert check_file(path) == FileFacts(7, 5)
    assert decoded == []


@pytest.mark.parametrize("suffix", ["jpeg", "png", "webp", "bmp", "gif"])
@pytest.mark.parametrize("length", [3, 10_000])
def test_rubbish_behind_the_end_harms_nothing(tmp_path, suffix, length):
    path = put(tmp_path, f"image.{suffix}", encoded(suffix) + b"x" * length)
    assert check_file(path) == FileFacts(7, 5)
    assert read_pixels(path).shape == (5, 7, 3)


def test_the_end_of_a_thumbnail_is_not_that_of_the_image(tmp_path):
    exif = Image.Exif()
    exif[0x010E] = "a thumbnail ends here: \xff\xd9"  # description
    whole = encoded("jpeg", picture(40, 40), exif=b"Exif\0\0" + exif.tobytes()[6:] + b"\xff\xd9")
    assert check_file(put(tmp_path, "whole.jpg", whole)) == FileFacts(40, 40)
    assert check_file(put(tmp_path, "cut.jpg", whole[:-300])).problem == "truncated"


def test_notes_behind_the_pixels_of_a_png_turn_it_too(tmp_path):
    plain, exif = encoded("png"), Image.Exif()
    exif[0x0112] = 6
    turned = plain[:-12] + chunk(b"eXIf", exif.tobytes()[6:]) + plain[-12:]
    path = put(tmp_path, "late.png", turned)
    assert read_pixels(path).shape == (7, 5, 3)
    assert check_file(path) == FileFacts(5, 7)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "empty file"),
        (b"not an image", "not an image"),
        (b"<html>404</html>", "not an image"),
        (b"\x89PNG\r\n\x1a\n", "damaged header"),
        (b"BM", "damaged header"),
        (b"\xff\xd8\xff\xe0 cut off", "truncated"),
        (encoded("png")[:16] + b"\0\0\0\0" + encoded("png")[20:], None),
    ],
)
def test_what_is_wrong_is_said_in_few_words(tmp_path, content, problem):
    path = put(tmp_path, "broken.jpg", content)
    found = check_file(path).problem
    assert found
    assert problem in (None, found)
    with pytest.raises(UserError, match=r"broken\.jpg: not a readable image \(.+\)$"):
        read_pixels(path)


def test_files_that_cannot_be_opened(tmp_path, monkeypatch):
    (tmp_path / "link.png").symlink_to(tmp_path / "nowhere.png")
    (tmp_path / "loop.png").symlink_to(tmp_path / "loop.png")
    assert check_file(str(tmp_path / "link.png")).problem == "broken link"
    assert check_file(str(tmp_path / "loop.png")).problem == "broken link"
    assert check_file(str(tmp_path / "gone.png")).problem == "no such file"
    assert check_file(str(tmp_path)).problem == "cannot be read: Is a directory"
    assert check_file("a\0b").problem
    with pytest.raises(UserError, match=r"gone\.png: not a readable image \(no such file\)"):
        read_pixels(str(tmp_path / "gone.png"))


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (PermissionError(13, "Permission denied"), "no permission"),
        (MemoryError(), "too little memory"),
        (OSError(5, "Input/output error"), "cannot be read: Input/output error"),
        (struct.error("unpack\nrequires"), "unpack requires"),
        (IndexError(), "IndexError"),
    ],
)
def test_every_failure_has_a_reason(tmp_path, monkeypatch, error, problem):
    path = put(tmp_path, "image.png", encoded("png"))

    def fail(*args, **options):
        raise error

    monkeypatch.setattr(Image, "open", fail)
    assert check_file(path) == FileFacts(0, 0, problem)
    with pytest.raises(UserError) as caught:
        read_pixels(path)
    assert str(caught.value) == f"{path}: not a readable image ({problem})"


@pytest.mark.parametrize("suffix", ["jpeg", "png", "webp", "tiff", "bmp", "gif"])
def test_too_many_pixels_are_refused_before_any_is_read(tmp_path, monkeypatch, suffix):
    path = put(tmp_path, "huge.img", encoded(suffix))
    monkeypatch.setattr(files, "MOST_PIXELS", 34)
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda image: pytest.fail("pixels were read"))
    problem = "more than 0 million pixels"
    assert check_file(path) == FileFacts(0, 0, problem)
    with pytest.raises(UserError, match=rf"huge\.img: not a readable image \({problem}\)"):
        read_pixels(path)


def test_pillows_own_limit_is_not_ours(tmp_path, monkeypatch):
    path = put(tmp_path, "image.png", encoded("png"))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)  # 35 pixels: Pillow would refuse them
    assert read_pixels(path).shape == (5, 7, 3)
    assert check_file(path) == FileFacts(7, 5)
    assert Image.MAX_IMAGE_PIXELS == 10
    assert files.MOST_PIXELS == 2**28


@pytest.mark.parametrize("suffix", ["jpeg", "png", "tiff", "gif"])
def test_large_images_shrink_and_keep_their_facts(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(files, "SHRUNK_ABOVE", 64 * 64)
    exif = Image.Exif()
    exif[0x0112] = 6
    left_white = np.zeros((160, 240, 3), dtype=np.uint8)
    left_white[:, :120] = 255
    options = {} if suffix == "gif" else {"exif": exif}
    path = put(tmp_path, f"image.{suffix}", encoded(suffix, left_white, **options))
    found = read_pixels(path)
    assert found.shape[0] * found.shape[1] <= 64 * 64
    assert min(found.shape[:2]) >= 40
    top, bottom = (found, found[:0]) if suffix == "gif" else (found[:20], found[-20:])
    assert top.max() == 255
    assert (bottom < 5).all()
    assert check_file(path) == (FileFacts(240, 160) if suffix == "gif" else FileFacts(160, 240))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16", "I", "F", "CMYK"])
def test_large_images_of_every_mode_shrink(tmp_path, monkeypatch, mode):
    left_white = np.zeros((40, 80), dtype=np.uint8)
    left_white[:, :40] = 255
    image = Image.fromarray(left_white)
    if mode == "I;16":
        image = Image.fromarray(left_white.astype(np.uint16) << 8)
    image.convert(mode).save(tmp_path / "large.tiff")
    monkeypatch.setattr(files, "SHRUNK_ABOVE", 200)
    found = read_pixels(str(tmp_path / "large.tiff"))
    assert found.shape == (10, 20, 3)
    assert (found[:, :10] == 255).all()
    assert (found[:, 10:] == 0).all()
    assert check_file(str(tmp_path / "large.tiff")) == FileFacts(80, 40)


def test_no_warning_leaks_and_filters_stay_as_they_were(tmp_path, monkeypatch):
    path, load = put(tmp_path, "image.tiff", encoded("tiff")), Image.Image.load

    def warn(image):
        warnings.warn_explicit("Truncated File Read", UserWarning, "file.py", 1, module="PIL.TiffImagePlugin")
        return load(image)

    monkeypatch.setattr(Image.Image, "load", warn)
    before = list(warnings.filters)
    read_pixels(path)
    check_file(path)
    assert warnings.filters == before
    with pytest.raises(UserWarning, match="Truncated"):
        Image.new("L", (1, 1)).load()


def test_threads_may_read_at_once(tmp_path):
    paths = [put(tmp_path, f"{i}.png", encoded("png", picture(seed=i))) for i in range(8)]
    before, limit, found = list(warnings.filters), Image.MAX_IMAGE_PIXELS, {}

    def read(i):
        for _ in range(20):
            found[i] = read_pixels(paths[i])

    threads = [threading.Thread(target=read, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(found[i], picture(seed=i)) for i in range(8))
    assert warnings.filters == before
    assert limit == Image.MAX_IMAGE_PIXELS
