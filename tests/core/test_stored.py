from dataclasses import dataclass, field
from typing import Literal

import pytest

from semppl.core.errors import UserError
from semppl.core.stored import load, stored_mapping, stored_text


def test_what_is_there_is_read():
    assert stored_mapping("a: 1\nb: {c: [2]}\n", "x.yaml") == {"a": 1, "b": {"c": [2]}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: [", r"run/x\.yaml is no valid YAML \(line 2\): restore it"),
        ("a\tb: \x00", r"run/x\.yaml is no valid YAML: restore it"),
        ("seed: 2026-99-99", r"run/x\.yaml is no valid YAML: restore it"),
        (3000 * "[", r"run/x\.yaml is no valid YAML: restore it"),
        ("", r"run/x\.yaml is not a YAML mapping: restore it"),
        ("- 1", r"run/x\.yaml is not a YAML mapping: restore it"),
    ],
)
def test_what_was_damaged_is_named(text, said):
    with pytest.raises(UserError, match=f"^{said}, or start a new run$"):
        stored_mapping(text, "run/x.yaml")


def test_bytes_that_are_no_text_are_named(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_bytes("ü: 1".encode())
    assert stored_text(file) == "ü: 1"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"x\.yaml is no text: restore it, or start a new run$"):
        stored_text(file)


@dataclass(frozen=True)
class Inner:
    several: tuple[int, ...] = ()
    rate: float | None = None
    kind: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    number: int = 0


def test_nested_mappings_become_nested_values_and_lists_tuples():
    assert load(Outer, {"inner": {"several": [1, 2]}}, "x") == Outer(Inner((1, 2)))


def test_a_whole_number_is_a_rate_too():
    assert load(Inner, {"rate": 1, "kind": "b"}, "x") == Inner(rate=1, kind="b")


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"inner": 3}, "x: Inner is 3: it must be a mapping"),
        (
            {"inner": {"more": 1}},
            r"x: unknown Inner keys \['more'\]: known are \['kind', 'rate', 'several'\]",
        ),
        ({"number": "x"}, "x: number is 'x': it must be of type int$"),
        (
            {"inner": {"several": [1, "2"]}},
            r"x: several is \(1, '2'\): it must be of type tuple\[int, ...\]$",
        ),
        ({"inner": {"rate": "1e-4"}}, r"x: rate is '1e-4': it must be of type float \| None$"),
        ({"inner": {"kind": "c"}}, r"x: kind is 'c': it must be of type Literal\['a', 'b'\]$"),
        ({"b": 1, 2: 1}, r"x: unknown Outer keys \[2, 'b'\]: known are \['inner', 'number'\]"),
    ],
)
def test_what_nobody_knows_is_refused_with_the_file(raw, said):
    with pytest.raises(UserError, match=f"^{said}$"):
        load(Outer, raw, "x")
