import io

import numpy as np
import pytest
from PIL import Image

from semppl.data.endings import ENDS

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 30, 3)).astype(np.uint8)


def written(kind):
    buffer = io.BytesIO()
    Image.fromarray(PIXELS).save(buffer, "JPEG" if kind == "MPO" else kind)
    return buffer.getvalue()


def whole(kind, content):
    file = io.BytesIO(content)
    file.seek(2)
    return ENDS[kind](file, len(content))


@pytest.mark.parametrize("kind", sorted(ENDS))
def test_a_whole_file_ends_as_it_should_and_one_that_is_cut_does_not(kind):
    content = written(kind)
    assert whole(kind, content)
    assert not whole(kind, content[: len(content) * 2 // 3])


@pytest.mark.parametrize("kind", ["JPEG", "GIF"])
def test_a_few_bytes_behind_the_end_do_no_harm(kind):
    assert whole(kind, written(kind) + bytes(50))


def test_notes_behind_the_pixels_of_a_png_leave_a_doubt():
    content = written("PNG")
    note = b"\0\0\0\0eXIf\0\0\0\0"
    assert not whole("PNG", content[:-12] + note + content[-12:])


def test_a_bitmap_whose_header_names_no_length_leaves_a_doubt():
    content = written("BMP")
    assert not whole("BMP", content[:2] + bytes(4) + content[6:])
