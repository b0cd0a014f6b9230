import collections
import copyreg
import pickle
import random
import shutil
import struct
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from semppl.core.errors import UserError
from semppl.released.unpickle import read_pickle


def inner(value):
    """The instructions that put a value on the stack, by protocol 2."""
    return pickle.dumps(value, 2)[2:-1]


def called(module, name, *arguments):
    return f"c{module}\n{name}\n".encode() + inner(arguments) + b"R"


def whole(body, protocol=2):
    return pickle.PROTO + bytes([protocol]) + body + b"."


def read(tmp_path, data):
    path = tmp_path / "file.pkl"
    path.write_bytes(data)
    return read_pickle(path)


def refused(tmp_path, data, *words):
    with pytest.raises(UserError) as caught:
        read(tmp_path, data)
    message = str(caught.value)
    assert message.isprintable()
    assert message.startswith(str(tmp_path / "file.pkl"))
    for word in words:
        assert word in message


def same(found, expected):
    assert isinstance(found, np.ndarray)
    assert found.dtype.newbyteorder("=") == expected.dtype.newbyteorder("=")
    assert found.tolist() == expected.tolist()


ARRAYS = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.asfortranarray(np.arange(24, dtype=np.float64).reshape(2, 3, 4)),
    np.arange(4, dtype=">f4"),
    np.array([1, 2**32 - 1], np.uint32),
    np.array([True, False]),
    np.array(3.5, np.float16),
    np.zeros((0, 3), np.float32),
]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_and_arrays(tmp_path, protocol):
    again = [1, "one", b"\x00\xff", None, True, 2.5, -(2**70), (), (1, 2, 3, 4), {"a": {}}]
    content = {"plain": again, "twice": again, "arrays": ARRAYS, "scalar": np.float32(0.5), 3: np.int64(-1)}
    found = read(tmp_path, pickle.dumps(content, protocol))
    assert found["plain"] == again
    assert found["twice"] is found["plain"]
    for array, expected in zip(found["arrays"], ARRAYS, strict=True):
        same(array, expected)
    assert (found["scalar"], found[3]) == (0.5, -1)
    assert isinstance(found["scalar"], np.float32)


def test_an_array_that_is_there_twice_is_one(tmp_path):
    array = np.arange(3.0)
    first, second = read(tmp_path, pickle.dumps([array, array], 2))
    assert first is second
    same(first, array)


def test_ordered_dicts_and_the_mappings_of_haiku_become_dicts(tmp_path):
    found = read(tmp_path, pickle.dumps(collections.OrderedDict(b=1, a=2), 4))
    assert type(found) is dict
    assert list(found.items()) == [("b", 1), ("a", 2)]
    for name in ("FlatMapping", "FlatMap", "frozendict"):
        assert read(tmp_path, whole(called("haiku._src.data_structures", name, {"w": 1}))) == {"w": 1}


@pytest.mark.parametrize(
    "name",
    [
        "jax._src.array _reconstruct_array",
        "jax._src.device_array reconstruct_device_array",
        "dill._dill _create_array",
        "dill.dill _create_array",
    ],
)
def test_arrays_of_jax_and_of_dill_become_numpys(tmp_path, name):
    for array in ARRAYS:
        state = *array.__reduce__(), {"weak_type": False}
        same(read(tmp_path, whole(called(*name.split(), *state))), array)


def test_names_of_old_numpy(tmp_path):
    data = pickle.dumps(ARRAYS[0], 2)
    assert b"numpy._core.multiarray" in data
    same(read(tmp_path, data.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")), ARRAYS[0])


def test_named_tuples_of_dill_become_dicts(tmp_path):
    make = called("dill._dill", "_create_namedtuple", "State", ("online_params", "step"), "byol.experiment")
    assert read(tmp_path, whole(make + inner(({"a": 1}, 5)) + b"\x81")) == {
        "online_params": {"a": 1},
        "step": 5,
    }
    refused(tmp_path, whole(make + inner((1,)) + b"\x81"), "2 fields with 1 values")


def test_the_state_of_byols_optimiser(tmp_path):
    assert read(tmp_path, whole(b"cbyol.utils.optimizers\nAddWeightDecayState\n)\x81")) == {}


ATTACKS = {
    "os.system": lambda shell, python: whole(called("os", "system", shell)),
    "builtins.eval": lambda shell, python: whole(called("builtins", "eval", python)),
    "__builtin__.eval": lambda shell, python: whole(called("__builtin__", "eval", python)),
    "runpy._run_code": lambda shell, python: whole(called("runpy", "_run_code", python, {})),
    "pathlib.os.system": lambda shell, python: whole(
        inner("pathlib") + inner("os.system") + b"\x93" + inner((shell,)) + b"R", 4
    ),
    "numpy.testing._private.utils.runstring": lambda shell, python: whole(
        inner("numpy.testing._private.utils") + inner("runstring") + b"\x93" + inner((python, {})) + b"R", 4
    ),
    "INST": lambda shell, python: whole(b"(" + inner(shell) + b"ios\nsystem\n"),
    "subprocess.getoutput": lambda shell, python: whole(b"(csubprocess\ngetoutput\n" + inner(shell) + b"o"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_in_a_file_is_run(tmp_path, name):
    marker = tmp_path / "marker"
    data = ATTACKS[name](f"touch {marker}", f"open({str(marker)!r}, 'w').close()")
    pickle.loads(data)
    assert marker.exists(), "the attack is one"
    marker.unlink()
    refused(tmp_path, data, name, "nothing was run")
    assert not marker.exists()


def test_what_is_refused_is_not_even_imported(tmp_path, monkeypatch):
    (tmp_path / "unlikely_package.py").write_text("class Thing: pass")
    monkeypatch.syspath_prepend(tmp_path)
    refused(tmp_path, whole(b"cunlikely_package\nThing\n)\x81"), "unlikely_package.Thing")
    assert "unlikely_package" not in sys.modules


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (inner("key") + b"Q", "BINPERSID"),
        (b"Pkey\n", "PERSID"),
        (b"\x82\x01", "EXT1"),
        (b"\x83\x01\x00", "EXT2"),
        (b"\x84\x01\x00\x00\x00", "EXT4"),
        (b"cnumpy\ndtype\n)}\x92", "NEWOBJ_EX"),
        (b"cnumpy\ndtype\n)\x81", "makes an object of a Call"),
        (b"cnumpy\nndarray\n)R", "makes an array of nothing"),
        (b"cnumpy\nndarray\n}b", "changes a Call"),
        (b"cnumpy\nndarray\nN}U\x01a1\x86b", "SHORT_BINSTRING"),
        (inner("text") + b")R", "calls a str"),
        (b"}}b", "changes a dict"),
        (b"]" + inner(1) + inner(2) + b"s", "a list with a int as key"),
        (b"}" + inner((1,)) + inner(2) + b"s", "a dict with a tuple as key"),
        (b"}" + inner(1 << 3000) + inner(2) + b"s", "LONG4"),  # the hash of a long number takes long
        (b"\x8f", "EMPTY_SET"),
        (b"\x97", "NEXT_BUFFER"),
        (b"ccollections\nOrderedDict.fromkeys\n)R", "collections.OrderedDict.fromkeys"),
        (b"ccollections\ndefaultdict\n)R", "collections.defaultdict"),
        (called("dill._dill", "_load_type", "CodeType"), "the type CodeType"),
        (called("_codecs", "encode", "text", "rot13"), "encodes a text"),
        (inner(np.array([1, "a"], object)), "array of type O8"),
        (inner(np.array(["a"])), "array of type U1"),
        (inner(np.zeros(2, [("a", "f4")])), "array of type V4"),
        (inner(np.array(["2020-01-01"], "M8[D]")), "array of type M8"),
        (b"\x00", "not a pickle"),
    ],
)
def test_what_no_checkpoint_needs_is_refused(tmp_path, body, word):
    refused(tmp_path, whole(body, 5), word)


def test_an_extension_that_somebody_registered_is_refused(tmp_path):
    copyreg.add_extension("shutil", "which", 240)
    try:
        data = pickle.dumps(shutil.which, 2)
        assert data == whole(b"\x82\xf0")
        pickle.loads(data)
        refused(tmp_path, data, "EXT1")
    finally:
        copyreg.remove_extension("shutil", "which", 240)


def test_names_in_messages_stay_on_their_line(tmp_path):
    name = "a\n" * 500
    refused(tmp_path, whole(inner(name) + inner(name) + b"\x93", 4), r"refers to a\na\n")
    name = "evil\x1b[31m"
    refused(tmp_path, whole(inner(name) + inner(name) + b"\x93", 4), r"refers to evil\x1b[31m.evil\x1b[31m")
    refused(tmp_path, whole(called("numpy", "dtype", name, False, True)), r"array of type evil\x1b[31m,")
    refused(tmp_path, whole(called("dill._dill", "_load_type", name)), r"the type evil\x1b[31m,")


def test_a_function_of_numpy_with_wrong_arguments(tmp_path):
    make, arguments, state = ARRAYS[0].__reduce__()
    refused(tmp_path, whole(called("dill._dill", "_create_array", dict, (), state)), "__builtin__.dict")
    refused(
        tmp_path,
        whole(called("dill._dill", "_create_array", 5, arguments, state)),
        "something else than numpy",
    )
    other = (np.matrix, *arguments[1:])
    refused(tmp_path, whole(called("dill._dill", "_create_array", make, other, state)), "matrix")
    few = (*state[:4], state[4][:-4])
    refused(tmp_path, whole(called("dill._dill", "_create_array", make, arguments, few)), "5 numbers for")
    refused(tmp_path, whole(called("dill._dill", "_create_array")), "damaged")


@pytest.mark.parametrize("nest", [b"]" * 200_000 + b"a" * 199_999, b")" + b"\x85" * 200_000])
def test_deep_nesting_is_no_danger(tmp_path, nest):
    assert read(tmp_path, whole(b"}" + inner("deep") + nest + b"s")).keys() == {"deep"}
    if nest[:1] == b")":
        refused(tmp_path, whole(b"}" + nest + inner(1) + b"s"), "tuple as key")


def test_numbers_that_ask_for_memory_do_not_get_it(tmp_path):
    assert read(tmp_path, whole(b"}r\xff\xff\xff\xff")) == {}  # the last of four billion entries of the memo
    most = struct.pack("<Q", 2**62)
    for opcode in (b"\x8d", b"\x8e", b"\x96", b"\x95"):
        refused(tmp_path, whole(opcode + most, 5), "damaged or cut off")
    shape = called("numpy._core.multiarray", "_reconstruct", 1)
    refused(tmp_path, whole(shape), "of a kind of its own")
    huge = pickle.dumps(ARRAYS[0], 2).replace(b"K\x02K\x03\x86", b"J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86")
    refused(tmp_path, huge, "6 numbers for the shape (2147483647, 2147483647)")


def data_of(length):
    return b"B" + struct.pack("<I", length) + bytes(length)


def text_of(length):
    return b"X" + struct.pack("<I", length) + b"a" * length


def kept(body, place):
    """Put into the memo, and not left on the stack."""
    return body + b"q" + bytes([place]) + b"0"


MIB = 2**20
NUMBERS = b"cnumpy._core.numeric\n_frombuffer\n"
BF16 = called("numpy", "dtype", "bfloat16", False, True)
NAMES = tuple(map(str, range(1000)))
BLANK = b"cnumpy._core.multiarray\n_reconstruct\n"
STATE = b"(K\x01J" + struct.pack("<I", MIB) + b"\x85" + called("numpy", "dtype", "i1", False, True) + b"\x89"
RECORD = called("dill._dill", "_create_namedtuple", "State", NAMES, "os")
# what is kept in the memo, and what is done with it again and again
BOMBS = {
    "bfloat16": (
        kept(NUMBERS, 240)
        + kept(b"(" + data_of(MIB) + BF16 + b"J\x00\x00\x08\x00\x85" + inner("C") + b"t", 241),
        b"h\xf0h\xf1R",
        100,
    ),
    "text": (
        kept(b"c_codecs\nencode\n", 240) + kept(text_of(MIB) + inner("latin1") + b"\x86", 241),
        b"h\xf0h\xf1R",
        100,
    ),
    "arrays": (
        kept(BLANK, 240)
        + kept(b"cnumpy\nndarray\n" + inner((0,)) + b"C\x01b\x87", 241)
        + kept(STATE + data_of(MIB) + b"t", 242),
        b"h\xf0h\xf1Rh\xf2b",
        100,
    ),
    "records": (kept(RECORD, 240) + kept(b"(" + b"N" * 1000 + b"t", 241), b"h\xf0h\xf1\x81", 1000),
    "classes": (
        kept(inner(("State", NAMES, "os")), 241) + kept(b"cdill._dill\n_create_namedtuple\n", 240),
        b"h\xf0h\xf1R",
        1000,
    ),
    "mappings": (b"", b"ccollections\nOrderedDict\nq\xf0" + b")Rh\xf0" * 250_000, 1),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_short_file_that_asks_for_much_memory_does_not_get_it(tmp_path, name):
    start, again, times = BOMBS[name]
    if times > 1:
        read(tmp_path, whole(start + again, 4))  # once is no harm
    tracemalloc.start()
    try:
        data = whole(start + again * times, 4)
        refused(tmp_path, data, "asks for more memory than a file of its size needs")
        assert tracemalloc.get_traced_memory()[1] < 12 * len(data) + 32 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("code", ["bfloat16", "f4"])
def test_files_without_repetition_get_what_they_need(tmp_path, code):
    """Zeros by protocol 2, as short as a file can be, and longer than the spare 16 MiB are."""
    length = 20 * MIB
    count = struct.pack("<I", length // (2 if code == "bfloat16" else 4))
    state = b"(K\x01J" + count + b"\x85" + called("numpy", "dtype", code, False, True) + b"\x89"
    text = b"c_codecs\nencode\nX" + struct.pack("<I", length) + bytes(length) + inner("latin1") + b"\x86R"
    blank = BLANK + b"cnumpy\nndarray\n" + inner((0,)) + b"C\x01b\x87R"
    found = read(tmp_path, whole(blank + state + text + b"tb"))
    assert found.dtype == np.float32
    assert found.size == length // (2 if code == "bfloat16" else 4)
    assert not found.any()


def test_very_many_fields_or_arguments_are_refused(tmp_path):
    make = called("dill._dill", "_create_namedtuple", "State", ("a",) * 300_000, "os")
    refused(tmp_path, whole(make), "a record of 300000 fields")
    refused(tmp_path, whole(called("numpy", "dtype", *["f4"] * 300_000)), "a function with 300000 arguments")


def small(protocol):
    """A checkpoint with everything that one has."""
    make, arguments, state = ARRAYS[1].__reduce__()
    array = pickle.dumps({"w": ARRAYS[0], "v": ARRAYS[2], "step": 5, "name": "res_net50/~/conv"}, protocol)
    jax = called("jax._src.array", "_reconstruct_array", make, arguments, state, {"weak_type": False})
    fields = called("dill._dill", "_create_namedtuple", "State", ("a", "b"), "module")
    return array[:-1] + b"0" + jax + b"0" + fields + inner((1, 2)) + b"\x81" + b"."


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_file_that_is_cut_off_anywhere(tmp_path, protocol):
    data = small(protocol)
    assert read(tmp_path, data) == {"a": 1, "b": 2}
    for length in range(len(data)):
        with pytest.raises(UserError, match=r"^\S*file.pkl: .*"):
            read(tmp_path, data[:length])


@pytest.mark.parametrize("protocol", [2, 4])
def test_damage_anywhere_is_an_answer_or_a_refusal(tmp_path, protocol):
    data, rng = small(protocol), random.Random(0)
    refusals = 0
    for place in range(2, len(data)):
        for _ in range(3):
            try:
                read(tmp_path, data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :])
            except UserError:
                refusals += 1
    assert refusals > len(data)


def test_noise_is_an_answer_or_a_refusal(tmp_path):
    rng, messages = random.Random(1), []
    for _ in range(2000):
        noise = b"\x80\x04" + bytes(
            rng.choice(b"\x93\x85\x86\x87R)]}(abceghjqsut0.NK\x94\x81") for _ in range(30)
        )
        try:
            read(tmp_path, noise)
        except UserError as error:
            messages.append(str(error))
    assert len(messages) > 1500
    assert all(message.isprintable() for message in messages)


def test_files_that_are_no_pickles(tmp_path):
    refused(tmp_path, b"", "is empty")
    refused(tmp_path, b"\x80", "damaged or cut off")
    refused(tmp_path, b"\x1f\x8b\x08\x00", "gzip")
    refused(tmp_path, b"<!DOCTYPE html><html>No such object", "web page")
    refused(tmp_path, b"<?xml version='1.0'?><Error>", "web page")
    refused(tmp_path, b"\xff\xd8\xff\xe0", "is not a pickle")
    refused(tmp_path, b"\x80\xff.", "damaged")
    refused(tmp_path, pickle.dumps([1], 0), "protocol 0")
    with zipfile.ZipFile(tmp_path / "file.zip", "w") as archive:
        archive.writestr("archive/data.pkl", b"")
    refused(tmp_path, (tmp_path / "file.zip").read_bytes(), "zip archive")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match="cannot be read: No such file"):
        read_pickle(Path(tmp_path / "absent.pkl"))
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        read_pickle(tmp_path)
