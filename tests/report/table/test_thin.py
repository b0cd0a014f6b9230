import json
from itertools import pairwise

import pytest
from tests.report.conftest import metrics_rows
from tests.report.table.conftest import long_rows

from semppl.report.table.thin import kept_lines, lighter, thinned
from semppl.report.trust import last_epoch


def test_few_lines_stay_as_they_are():
    rows = metrics_rows(60)
    assert thinned(rows) == rows
    assert thinned([]) == []


@pytest.mark.parametrize("count", [61, 100, 499, 500])
@pytest.mark.parametrize("epochs", [20.0, 1000.0])
def test_all_that_a_table_says_is_exactly_the_same(count, epochs):
    rows = long_rows(0, count, epochs=epochs)
    kept = thinned(rows)
    assert last_epoch(kept) == last_epoch(rows)
    assert (kept[0], kept[-1]) == (rows[0], rows[-1])
    last = [row for row in rows if row["step"] > 5 * count - max(round(5 * count / epochs), 1)]
    assert kept[-len(last) :] == last
    assert [row for row in rows if row in kept] == kept, "in their order, each once"


def test_about_sixty_lines_from_all_over_the_run():
    steps = [row["step"] // 5 for row in thinned(long_rows(0, 500, epochs=200.0))]
    assert 50 <= len(steps) <= 70
    assert max(later - step for step, later in pairwise(steps)) <= 10


def test_lines_without_pseudo_labels():
    rows = metrics_rows(300, epochs=30.0, known=False)
    assert thinned(rows)[-10:] == rows[-10:], "the last of 30 epochs"
    for row in rows:
        del row["epoch"]
    assert len(thinned(rows)) == 51, "the first line, and those for a curve"


def test_all_lines_stay_where_the_last_ones_know_no_pseudo_labels():
    rows = long_rows(0, epochs=50.0)
    for row in rows[-9:]:
        row["pseudo/right_by_votes"] = "many"
    assert last_epoch(rows) == last_epoch(rows[:-9])
    assert thinned(rows) == rows


def test_lines_are_kept_as_they_were_written():
    text = (
        '{"step": 1,  "a": NaN}\n\n{"step": 2}\n{"step": "x"}\n{"step": 3}\n{"step": 3, "b": 1}\n{"st\udce9'
    )
    assert kept_lines(text, [{"step": 1}, {"step": 3}]) == (
        '{"step": 1,  "a": NaN}\n{"step": "x"}\n{"step": 3}\n{"step": 3, "b": 1}\n{"st\udce9\n'
    )
    assert kept_lines("", []) == ""


def test_only_large_results_lose_their_matrices():
    content = {"protocol": "x", "details": {"metrics": [{"top1": 0.5, "confusion": [[1, 0], [0, 1]]}]}}
    text = json.dumps(content)
    assert lighter(text) == text
    light = lighter(text, most=10)
    assert json.loads(light) == {"protocol": "x", "details": {"metrics": [{"top1": 0.5}]}}
    assert lighter(light, most=10) == light
    assert lighter('{"confusion": [', most=10) == '{"confusion": [', "what is damaged stays so"
    square = json.dumps({"confusion": [[0] * 1000] * 1000})
    assert json.loads(lighter(square)) == {}
