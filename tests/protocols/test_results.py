import json

import pytest
from rich.console import Console

from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory
from semppl.protocols.results import (
    Number,
    Outcome,
    over_seeds,
    require_free,
    result_file,
    show_outcome,
    write_outcome,
)


def test_numbers_in_words():
    assert str(Number("a", 71.25)) == "71.2"
    assert str(Number("a", 71.25, 70, 72.31)) == "71.2 (70.0 to 72.3)"
    assert str(Number("a", 71.25, deviation=0.44)) == "71.2 ± 0.4"


def test_seeds_become_mean_and_deviation_and_one_seed_stays():
    one, two = [Number("a", 1, 0, 2), Number("b", 10)], [Number("a", 2, 1, 3), Number("b", 14)]
    assert over_seeds([one]) == one
    first, second = over_seeds([one, two])
    assert (first.name, first.value, first.low) == ("a", 1.5, None)
    assert first.deviation == pytest.approx(0.5**0.5)
    assert (second.value, second.deviation) == (12, pytest.approx(8**0.5))


def test_a_result_is_kept_with_all_facts_and_not_replaced(tmp_path):
    run = RunDirectory(tmp_path)
    file = result_file(run, "knn", "")
    assert file == tmp_path / "evaluations" / "knn.json"
    assert result_file(run, "knn", "k5").name == "knn-k5.json"
    require_free([file], overwrite=False)
    outcome = Outcome("k-NN", [Number("top-1", 50.0, 40.0, 60.0)], {"k": 5}, {"more": [1]})
    write_outcome(file, outcome, {"split_sha256": "ab"})
    assert json.loads(file.read_text()) == {
        "protocol": "k-NN",
        "numbers": [{"name": "top-1", "value": 50.0, "low": 40.0, "high": 60.0, "deviation": None}],
        "settings": {"k": 5},
        "details": {"more": [1]},
        "split_sha256": "ab",
    }
    with pytest.raises(UserError, match=r"knn.json is there already: keep both with --name"):
        require_free([file], overwrite=False)
    require_free([file], overwrite=True)


def test_a_table_has_its_protocol_under_it():
    console = Console(width=80, record=True, quiet=False, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    show_outcome(console, "run: knn", Outcome("k-NN: k=5", [Number("top-1", 50.0)]))
    console.file.close()
    text = console.export_text()
    assert "run: knn" in text
    assert "50.0" in text
    assert "protocol: k-NN: k=5" in text
