import json
import random
import statistics
from itertools import pairwise

import pytest
from tests.report.conftest import metrics_rows
from tests.report.table.conftest import long_rows

from semppl.report.table.thin import kept_lines, lighter, thinned
from semppl.report.trust import last_epoch


def speeds(rows):
    return [row["images_per_second"] for row in rows if "images_per_second" in row]


def with_speeds(count, epochs, speed):
    rows = long_rows(0, count, epochs=epochs)
    for i, row in enumerate(rows):
        row["images_per_second"] = speed(i)
    return rows


def test_few_lines_stay_as_they_are():
    rows = metrics_rows(60)
    assert thinned(rows) == rows
    assert thinned([]) == []


@pytest.mark.parametrize("count", [61, 100, 499, 500])
@pytest.mark.parametrize("epochs", [20.0, 1000.0])
@pytest.mark.parametrize(
    "speed",
    [
        lambda i: 1000.0,
        lambda i: 100.0 + i,
        lambda i: 1000.0 - i,
        lambda i: random.Random(i).uniform(900, 1100),
        lambda i: float(random.Random(i).randint(1, 4)),
    ],
    ids=["one", "faster and faster", "slower and slower", "any", "tied"],
)
def test_all_that_a_table_says_is_exactly_the_same(count, epochs, speed):
    rows = with_speeds(count, epochs, speed)
    kept = thinned(rows)
    assert statistics.median(speeds(kept)) == statistics.median(speeds(rows))
    assert last_epoch(kept) == last_epoch(rows)
    assert (kept[0], kept[-1]) == (rows[0], rows[-1])
    last = [row for row in rows if row["step"] > 5 * count - max(round(5 * count / epochs), 1)]
    assert kept[-len(last) :] == last
    assert [row for row in rows if row in kept] == kept, "in their order, each once"


def test_about_sixty_lines_from_all_over_the_run():
    rows = with_speeds(500, 200.0, lambda i: random.Random(i).uniform(900, 1100))
    steps = [row["step"] // 5 for row in thinned(rows)]
    assert 50 <= len(steps) <= 70
    assert max(later - step for step, later in pairwise(steps)) <= 10


def test_a_last_epoch_that_was_slow_takes_as_many_fast_lines_with_it():
    rows = with_speeds(200, 5.0, lambda i: 1.0 if i >= 160 else 100.0 + i)
    kept = thinned(rows)
    assert statistics.median(speeds(rows)) == 159.5, "of 40 slow lines, and of 160 that grow from 100"
    assert statistics.median(speeds(kept)) == 159.5
    assert sum(speed == 1.0 for speed in speeds(kept)) == 40
    assert len(kept) < 130


def test_lines_without_a_speed_or_pseudo_labels():
    rows = metrics_rows(300, epochs=30.0, known=False)
    for row in rows[::2]:
        del row["images_per_second"]
    for i, row in enumerate(rows[1::2]):
        row["images_per_second"] = float(i)
    assert statistics.median(speeds(rows)) == 74.5
    assert statistics.median(speeds(thinned(rows))) == 74.5
    assert thinned(rows)[-10:] == rows[-10:], "the last of 30 epochs"
    for row in rows:
        row.pop("images_per_second", None)
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
