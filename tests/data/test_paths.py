import pickle

import numpy as np
import pytest

from semppl.data import paths as module
from semppl.data.paths import Paths

STRINGS = ["a/1.png", "", "猫/[2] b.jpg", "ü.gif", "bad \udcff byte.bmp", "a/1.png"]


@pytest.fixture(params=[2, 65_536])
def paths(request, monkeypatch):
    monkeypatch.setattr(module, "_ROWS", request.param)  # parts and their edges
    return Paths(string for string in STRINGS)


def test_what_goes_in_comes_out(paths):
    assert len(paths) == 6
    assert list(paths) == STRINGS
    assert [paths[i] for i in range(-6, 6)] == STRINGS + STRINGS
    assert paths[np.int64(2)] == STRINGS[2]
    assert "ü.gif" in paths
    assert list(reversed(paths)) == STRINGS[::-1]


@pytest.mark.parametrize("index", [6, -7])
def test_outside_is_an_error(paths, index):
    with pytest.raises(IndexError, match=f"{index} is out of range: there are 6"):
        paths[index]
    with pytest.raises(IndexError, match="there are 6"):
        paths.take(np.array([0, index]))


@pytest.mark.parametrize("index", [[3, 0, 0, -1, 2], [], list(range(6))])
def test_some_are_taken_in_the_order_asked_for(paths, index):
    taken = paths.take(np.array(index, dtype=np.int64))
    assert list(taken) == [STRINGS[i] for i in index]
    assert taken.take(np.arange(len(taken))) == taken


@pytest.mark.parametrize("part", [slice(None), slice(1, 4), slice(4, None, -2), slice(9, 12)])
def test_a_slice_is_one_of_them(paths, part):
    assert isinstance(paths[part], Paths)
    assert list(paths[part]) == list(paths.take(part)) == STRINGS[part]


def test_only_integers_point_at_strings(paths):
    with pytest.raises(TypeError, match="bool"):
        paths.take(np.ones(6, dtype=bool))
    before = np.array([-1, 0])
    paths.take(before)
    assert before.tolist() == [-1, 0]


def test_equality_is_of_content(paths):
    assert paths == Paths(STRINGS)
    assert paths != Paths(STRINGS[::-1])
    assert Paths(["ab", "c"]) != Paths(["a", "bc"])
    assert paths != STRINGS
    assert Paths() == Paths([]) != Paths([""])


def test_a_pickle_of_a_part_is_small(paths):
    many = Paths(f"folder/{i:030d}.jpg" for i in range(1000))
    assert pickle.loads(pickle.dumps(many)) == many
    assert len(pickle.dumps(many)) < 1000 * (41 + 8 + 2)
    assert len(pickle.dumps(many[10:12])) < 500


def test_buffers_make_them_again_and_nothing_else_does(paths):
    assert Paths.from_buffer(paths.text, paths.offsets) == paths
    for text, offsets in (
        (b"abc", [0, 2]),
        (b"abc", [1, 3]),
        (b"abc", [0, 3, 2, 3]),
        (b"", []),
        (b"a", [[0, 1]]),
    ):
        with pytest.raises(ValueError, match="offsets"):
            Paths.from_buffer(text, np.array(offsets, dtype=np.int64))
