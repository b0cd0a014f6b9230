import io

import pytest
from rich.console import Console

from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory
from semppl.protocols.compare import compare, read_results
from semppl.protocols.results import Number, Outcome, result_file, write_outcome


def keep(path, protocol, words, facts=None, **numbers):
    path.mkdir(exist_ok=True, parents=True)
    file = result_file(RunDirectory(path), protocol, "")
    write_outcome(file, Outcome(words, [Number(name, value) for name, value in numbers.items()]), facts or {})


def shown(*paths):
    console = Console(file=io.StringIO(), width=120)
    compare(paths, console)
    return console.file.getvalue()


def test_runs_stand_side_by_side(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    keep(one, "knn", "k=5", top=50.0, five=90.0)
    keep(two, "knn", "k=5", top=60.0)
    keep(two, "linear", "l2", top=70.0)
    lines = [line.replace("│", " ").split() for line in shown(one, two).splitlines() if "│" in line]
    assert ["knn", "top", "50.0", "60.0"] in lines
    assert ["knn", "five", "90.0"] in lines
    assert ["linear", "top", "70.0"] in lines
    names = [line[:2] for line in lines]
    assert names == [["knn", "top"], ["knn", "five"], ["linear", "top"]], "in the order of the files"
    assert "not the same protocol" not in shown(one, two)


def test_numbers_of_different_protocols_are_called_so(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    keep(one, "knn", "k=5; 10 labels", top=50.0)
    keep(two, "knn", "k=5; 20 labels", top=60.0)
    said = shown(one, two)
    assert "knn: not the same protocol, so its numbers do not compare:" in said
    assert "two: k=5; 20 labels" in said


def test_words_of_an_earlier_version_are_the_same_protocol(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    keep(one, "linear-sgd", "1 epochs; 1 seed(s)", top=50.0)
    keep(two, "linear-sgd", "1 epoch; 1 seed", top=60.0)
    assert "not the same protocol" not in shown(one, two)


def test_runs_of_one_name_are_shown_by_their_paths(tmp_path):
    for parent in ("a", "b"):
        keep(tmp_path / parent / "run", "knn", "k", top=1.0)
    names = [tmp_path / "a" / "run", tmp_path / "b" / "run"]
    console = Console(file=io.StringIO(), width=400)
    compare(names, console)
    assert all(str(name) in console.file.getvalue() for name in names)


def test_nothing_or_nonsense_is_one_line(tmp_path):
    with pytest.raises(UserError, match="no results yet: run `semppl evaluate"):
        read_results(tmp_path)
    keep(tmp_path, "knn", "k", top=1.0)
    (tmp_path / "evaluations" / "fit.json").write_text('{"protocol": "k", "rows": []}')
    assert list(read_results(tmp_path).protocols) == ["knn"], "an earlier version kept no numbers"
    (tmp_path / "evaluations" / "knn.json").write_text('{"numbers": [{"name": "top-1"}]}')
    with pytest.raises(UserError, match=r"knn.json: not a result of ours \(TypeError\)"):
        read_results(tmp_path)


def test_other_data_is_called_so(tmp_path):
    for name in ("one", "two"):
        facts = {"data": name, "data_sha256": 64 * name[0]}
        keep(tmp_path / name, "knn", "k=5; 10 labels", facts, top=50.0)
    assert "not the same data" in shown(tmp_path / "one", tmp_path / "two")
    assert "two: two (sha256 tttttttttttt…)" in shown(tmp_path / "one", tmp_path / "two")
    assert "not the same data" not in shown(tmp_path / "one", tmp_path / "one")
