import math

import pytest

from semppl.report.gaps import Damaged
from semppl.report.lenient import counts, finite, read_json, read_metrics, read_table, read_yaml, strings


def test_a_metrics_file_cut_in_the_middle_of_a_line(tmp_path):
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b'{"step": 2, "a": 1}\n{"step": 1}\n[3]\n{"step": 2, "a": 5}\n\xff\x00\n{"step": 4, "lo')
    rows, lost = read_metrics(file)
    assert rows == [{"step": 1}, {"step": 2, "a": 5}], "in order, the last of a step"
    assert lost == 3


def test_tables_keep_odd_names_and_pass_over_a_cut_line(tmp_path):
    file = tmp_path / "t.csv"
    file.write_bytes(b'path,label,more\n"a ""b"", <c>.jpg",x,1\ncaf\xe9.jpg,y,2\n"two\nlines",z,3\ncut,')
    assert read_table(file, ("label", "path")) == [
        ("x", 'a "b", <c>.jpg'),
        ("y", "caf\udce9.jpg"),
        ("z", "two\nlines"),
    ]
    file.write_text("path,label\na,x,too much\nb,y\n")
    assert read_table(file, ("label",)) == [("y",)]
    with pytest.raises(Damaged, match=r"t.csv is damaged \(no column share\)"):
        read_table(file, ("share",))


@pytest.mark.parametrize("content", ["", "[1]", "{", "[" * 100_000])
def test_what_is_no_object_is_damaged(tmp_path, content):
    file = tmp_path / "x.json"
    file.write_text(content)
    with pytest.raises(Damaged, match=r"x.json is damaged"):
        read_json(file)


def test_what_is_not_there_is_damaged(tmp_path):
    with pytest.raises(Damaged, match=r"x.json cannot be read \(No such file"):
        read_json(tmp_path / "x.json")


@pytest.mark.parametrize("content", ["- 1", "a: [", "!!python/object/apply:os.system [ls]"])
def test_yaml_is_read_safely(tmp_path, content):
    file = tmp_path / "c.yaml"
    file.write_text(content)
    with pytest.raises(Damaged, match=r"c.yaml is damaged"):
        read_yaml(file)


def test_values_are_what_they_should_be_or_nothing():
    assert [finite(3), finite(0.5), finite(math.nan), finite(True), finite("3"), finite(10**400)] == [
        *(3.0, 0.5),
        *(None,) * 4,
    ]
    assert counts([1, 0]) == [1, 0]
    assert [counts([]), counts([1, -1]), counts([1.0]), counts([True]), counts("12")] == [None] * 5
    assert strings(["a", 1]) == ("a", "1")
    assert strings("ab") == ()
