import json

import pytest
from tests.report.conftest import CLASSES, evaluation, journey

from semppl.protocols.results import Number, Outcome, write_outcome
from semppl.report.findings import headline, read_evaluation, results_of
from semppl.report.gaps import Damaged


def kept(path, name, content):
    file = path / f"{name}.json"
    file.write_text(json.dumps(content))
    return file


def test_a_result_as_evaluate_writes_it(tmp_path):
    outcome = Outcome(
        "k = 5", [Number("top-1", 90.0, 86.0, 93.0)], {"k": 5}, {"metrics": {"confusion": [[1]]}}
    )
    write_outcome(tmp_path / "knn.json", outcome, {"data": "d", "data_sha256": "0" * 64, "classes": ["cat"]})
    found, journey_ = read_evaluation(tmp_path / "knn.json")
    assert journey_ is None
    assert found.numbers == (Number("top-1", 90.0, 86.0, 93.0),)
    assert (found.protocol, found.classes, found.confusion) == ("k = 5", ("cat",), ((1,),))
    assert found.data == "d (sha256 000000000000…)"


def test_fit_has_more_to_say(tmp_path):
    found, told = read_evaluation(kept(tmp_path, "fit", journey()))
    assert [row.decides for row in told.rows] == [True, False, False]
    assert told.votes[2] == (1.0, None, 0.0, 0)
    assert found.confusion[0] == (8, 1, 1)
    assert headline([found], told) == ("accuracy, linear", told.rows[0].number)


def test_an_earlier_fit_has_rows_alone(tmp_path):
    content = journey()
    for key in ("numbers", "classes", "confusion", "votes"):
        del content[key]
    found, told = read_evaluation(kept(tmp_path, "fit", content))
    assert found.numbers[0].name == "SemPPL, linear"
    assert found.confusion is None
    assert told.votes == ()


@pytest.mark.parametrize(
    "change",
    [
        {"protocol": None, "numbers": 3},
        {"numbers": [{"name": "top-1"}]},
        {"numbers": [{"name": "top-1", "value": "90"}]},
        {"settings": [1]},
        {"details": [1]},
    ],
)
def test_nonsense_is_damaged(tmp_path, change):
    with pytest.raises(Damaged, match=r"evaluations/knn.json is no result of ours"):
        read_evaluation(kept(tmp_path, "knn", evaluation() | change))


def test_the_headline_is_of_the_best_known_protocol(tmp_path):
    found = [
        read_evaluation(kept(tmp_path, name, evaluation(value)))[0]
        for name, value in (("corruptions", 1.0), ("knn", 2.0), ("linear", 3.0))
    ]
    assert headline(found, None)[0] == "linear, top-1"
    assert headline(found[:1], None)[1].value == 1.0
    assert headline([], None) is None


def test_results_compare(tmp_path):
    found, _ = read_evaluation(kept(tmp_path, "knn", evaluation(80.0)))
    results = results_of([found])
    assert results.numbers["knn", "top-1"].value == 80.0
    assert results.protocols == {"knn": "k = 5; 12 labels"}
    assert results.data == {"photos (sha256 abababababab…)"}
    assert found.classes == CLASSES
