import types

import numpy as np
import pytest

from semppl.released import standins
from semppl.released.standins import KNOWN, Call, Dtype, Record, Refused, line, restore_, size


def call(module, name, *arguments):
    stand_in = KNOWN[module, name]
    assert isinstance(stand_in, Call)
    return stand_in.run(*arguments)


def dtype(code, order="<"):
    made = call("numpy", "dtype", code, False, True)
    made.restore_((3, order, None, None, None, -1, -1, 0))
    return made


def test_numbers_of_both_orders():
    data = bytes([0, 0, 128, 63, 0, 0, 0, 64])
    assert dtype("f4").read(data).tolist() == [1, 2]
    swapped = np.array([1.0, 2.0], ">f4").tobytes()
    assert dtype("f4", ">").read(swapped).tolist() == [1, 2]
    assert dtype("u1", "|").read(b"\x00\xff").tolist() == [0, 255]


def test_bfloat16_is_the_upper_half_of_a_float32():
    # sign, eight bits of exponent, seven of fraction: 1, −2, 0.3330078125, infinity
    words = np.array([0x3F80, 0xC000, 0x3EAA, 0x7F80], np.uint16)
    code = KNOWN["ml_dtypes", "bfloat16"]
    found = dtype(code).read(words.tobytes())
    assert found.dtype == np.float32
    assert found.tolist() == [1.0, -2.0, 0.33203125, np.inf]
    assert dtype(code, ">").read(words.byteswap().tobytes()).tolist() == found.tolist()


@pytest.mark.parametrize(
    "code", ["O", "O8", "V4", "U1", "S1", "M8", "c8", "f16", "f4,f4", "<f4", "", 5, None, ["f4"]]
)
def test_other_types_are_refused(code):
    with pytest.raises(Refused, match="array of type"):
        call("numpy", "dtype", code, False, True)


@pytest.mark.parametrize(
    "state",
    [
        (3, "<", ("f4", (2,)), None, None, -1, -1, 0),
        (3, "|", None, ("a",), {"a": ("f4", 0)}, 4, 1, 0),
        (4, "<", None, None, None, -1, -1, 0, {}),
        (3, "x", None, None, None, -1, -1, 0),
        {},
        None,
    ],
)
def test_compound_types_are_refused(state):
    with pytest.raises(Refused, match="compound"):
        Dtype("f4").restore_(state)


def test_arrays_by_rows_and_by_columns():
    data = np.arange(6, dtype=np.float32).tobytes()
    for core in ("numpy.core", "numpy._core"):
        rows = call(f"{core}.numeric", "_frombuffer", data, dtype("f4"), (2, 3), "C")
        assert rows.tolist() == [[0, 1, 2], [3, 4, 5]]
        columns = call(f"{core}.numeric", "_frombuffer", data, dtype("f4"), (2, 3), "F")
        assert columns.tolist() == [[0, 2, 4], [1, 3, 5]]
        scalar = call(f"{core}.multiarray", "scalar", dtype("f4"), data[4:8])
        assert (scalar, type(scalar)) == (1, np.float32)


def test_an_array_is_filled_in_place():
    array = call("numpy._core.multiarray", "_reconstruct", KNOWN["numpy", "ndarray"], (0,), b"b")
    same = array
    restore_(array, (1, (3, 2), dtype("i2", ">"), True, np.arange(6, dtype=">i2").tobytes()))
    assert same.tolist() == [[0, 3], [1, 4], [2, 5]]
    same[0, 0] = 9
    assert array[0, 0] == 9


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ((1, (2,), "f4", False, b"12345678"), "without a type"),
        ((1, (2,), dtype("f4"), False, ["a", "b"]), "without numbers"),
        ((1, [2], dtype("f4"), False, b"12345678"), "without a shape"),
        ((1, (2.0,), dtype("f4"), False, b"12345678"), "without a shape"),
        ((1, (-2,), dtype("f4"), False, b"12345678"), "without a shape"),
        ((1, (True, 2), dtype("f4"), False, b"12345678"), "without a shape"),
        ((1, (2**50,), dtype("f4"), False, b"12345678"), "without a shape"),
        ((1, (3,), dtype("f4"), False, b"12345678"), "2 numbers for the shape"),
        ((1, (1,) * 9, dtype("f4"), False, b"1234"), "array of 9 axes"),
        ((1, (2,), dtype("f4"), b"12345678"), "unknown form"),
        ({"shape": 2}, "unknown form"),
    ],
)
def test_parts_that_do_not_fit_are_refused(state, word):
    with pytest.raises(Refused, match=word):
        restore_(np.empty(0, np.int8), state)


def test_bytes_that_do_not_fill_a_number():
    with pytest.raises(ValueError, match="multiple of element size"):
        restore_(np.empty(0, np.int8), (1, (2,), dtype("f4"), False, b"1234567"))


def test_only_numpys_array_is_made():
    for kind in (np.ndarray, np.matrix, dict, None):
        with pytest.raises(Refused, match="of a kind of its own"):
            call("numpy._core.multiarray", "_reconstruct", kind, (0,), b"b")
    for make in (print, KNOWN["numpy", "dtype"]):
        with pytest.raises(Refused, match="something else than numpy"):
            call("jax._src.array", "_reconstruct_array", make, (), (), {})
    with pytest.raises(Refused, match="of nothing"):
        call("numpy", "ndarray", (10**6, 10**6))


def test_mappings():
    content = {"a": 1}
    assert call("haiku._src.data_structures", "FlatMapping", content) is content
    assert call("collections", "OrderedDict") == {}
    with pytest.raises(Refused, match="made of a list"):
        call("haiku._src.data_structures", "FlatMap", [("a", 1)])


def test_records():
    record = call("dill._dill", "_create_namedtuple", "State", ("a", "b"), "os", (1,))
    assert isinstance(record, Record)
    assert record.fill((1, 2)) == {"a": 1, "b": 2}
    with pytest.raises(Refused, match="2 fields with 3 values"):
        record.fill((1, 2, 3))
    with pytest.raises(Refused, match="without names"):
        call("dill._dill", "_create_namedtuple", "State", ["a"], "os")
    with pytest.raises(Refused, match="without names"):
        call("dill._dill", "_create_namedtuple", "State", (1,), "os")
    with pytest.raises(Refused, match="without names"):
        call("dill._dill", "_create_namedtuple", "State", ("a", "b", "a"), "os")


class Unread(tuple):
    """Whose entries nobody may look at."""

    __slots__ = ()

    def __iter__(self):
        raise AssertionError


def test_what_is_too_long_is_refused_before_it_is_read():
    with pytest.raises(Refused, match="a record of 1001 fields"):
        call("dill._dill", "_create_namedtuple", "State", Unread(["a"] * 1001), "os")
    with pytest.raises(Refused, match="an array of 9 axes"):
        call("numpy._core.numeric", "_frombuffer", b"1234", dtype("f4"), Unread([1] * 9), "C")
    with pytest.raises(Refused, match="a function with 9 arguments"):
        KNOWN["numpy", "dtype"].of(Unread(["f4"] * 9))
    blank = KNOWN["numpy._core.multiarray", "_reconstruct"]
    with pytest.raises(Refused, match="a function with 9 arguments"):
        call("jax._src.array", "_reconstruct_array", blank, Unread([1] * 9), (), {})
    assert KNOWN["numpy", "dtype"].of(("f4",) * 8).code == "f4"
    names = tuple(map(str, range(1000)))
    assert call("dill._dill", "_create_namedtuple", "State", names, "os").fields == names
    assert call("numpy._core.numeric", "_frombuffer", b"1234", dtype("f4"), (1,) * 8, "C").ndim == 8


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (np.zeros((3, 5), np.float32), 160),
        (np.float64(1), 108),
        (b"12345", 105),
        ({"a": 1, "b": 2}, 300),
        (Record(("a", "b", "c")), 400),
        (Dtype("f4"), 100),
        (Call(dtype), 100),
    ],
)
def test_sizes_are_at_least_those_of_the_content(made, expected):
    assert size(made) == expected


def test_bytes_of_protocol_2():
    assert call("_codecs", "encode", "\x00ÿ", "latin1") == b"\x00\xff"
    assert call("__builtin__", "bytes") == b""
    assert call("dill._dill", "_load_type", "bytes").run() == b""
    for name in ("CodeType", "function", 5):
        with pytest.raises(Refused, match="refers to the type"):
            call("dill._dill", "_load_type", name)
    for arguments in (("a", "utf-8"), (b"a", "latin1"), (5,)):
        with pytest.raises(Refused, match="encodes"):
            call("_codecs", "encode", *arguments)


CLOSED = {
    ("numpy", "ndarray"): "_never",
    ("numpy", "dtype"): "_dtype",
    ("numpy.core.multiarray", "_reconstruct"): "_blank",
    ("numpy._core.multiarray", "_reconstruct"): "_blank",
    ("numpy.core.multiarray", "scalar"): "_scalar",
    ("numpy._core.multiarray", "scalar"): "_scalar",
    ("numpy.core.numeric", "_frombuffer"): "_numbers",
    ("numpy._core.numeric", "_frombuffer"): "_numbers",
    ("ml_dtypes", "bfloat16"): None,
    ("jax._src.dtypes", "bfloat16"): None,
    ("haiku._src.data_structures", "FlatMapping"): "_mapping",
    ("haiku._src.data_structures", "FlatMap"): "_mapping",
    ("haiku._src.data_structures", "frozendict"): "_mapping",
    ("haiku._src.data_structures", "to_immutable_dict"): "_mapping",
    ("haiku._src.data_structures", "to_haiku_dict"): "_mapping",
    ("haiku._src.data_structures", "to_dict"): "_mapping",
    ("collections", "OrderedDict"): "_mapping",
    ("jax._src.array", "_reconstruct_array"): "_array",
    ("jax._src.device_array", "reconstruct_device_array"): "_array",
    ("dill._dill", "_create_array"): "_array",
    ("dill.dill", "_create_array"): "_array",
    ("dill._dill", "_create_namedtuple"): "_record",
    ("dill.dill", "_create_namedtuple"): "_record",
    ("dill._dill", "_load_type"): "_type",
    ("dill.dill", "_load_type"): "_type",
    ("_codecs", "encode"): "_bytes",
    ("__builtin__", "bytes"): "_bytes",
    ("byol.utils.optimizers", "AddWeightDecayState"): None,
    ("semppl.utils.optimizers", "AddWeightDecayState"): None,
}
"""All that a file may name, and the function that answers; None where there is none to call."""


def test_the_table_is_closed():
    assert set(KNOWN) == set(CLOSED)
    for key, stand_in in KNOWN.items():
        if CLOSED[key] is None:
            assert stand_in in ("bfloat16", Record(()))
            assert type(stand_in) in (str, Record)
        else:
            assert type(stand_in) is Call
            assert type(stand_in.run) is types.FunctionType
            assert stand_in.run.__module__ == "semppl.released.standins"
            assert stand_in.run is getattr(standins, CLOSED[key])


def test_a_stand_in_cannot_be_changed():
    for stand_in in KNOWN.values():
        if isinstance(stand_in, Call | Record):
            with pytest.raises((AttributeError, TypeError)):
                stand_in.run = print


def test_a_line_is_one_line_and_not_long():
    assert line("a\nb\u2028\ud800") == r"a\nb\u2028\ud800"
    assert line("evil\n\x1b[31m\x9b\u202ename") == r"evil\n\x1b[31m\x9b\u202ename"
    assert len(line("x" * 10_000)) == 120
