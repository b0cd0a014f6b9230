from tests.report.table.conftest import configured, numbers, outcome

from semppl.report.table.sections import sections
from semppl.report.table.votes import right_shares, vote_tables


def line(step, right, known):
    epoch = 10.0 * step / 100
    return {"step": step, "epoch": epoch, "pseudo/right_by_votes": right, "pseudo/known_by_votes": known}


def row(tmp_path, *runs, **method):
    found = []
    for seed, rows in enumerate(runs):
        config = configured(seed=seed, method=method)
        found += numbers(tmp_path / str(seed), config, {"knn": outcome(90.0)}, rows=rows)
    return sections(found)[0].rows[0]


# of the last epoch, steps 91 to 100: 10 images have one vote, 30 both
FIRST = [line(90, [0, 0, 0], [0, 9, 9]), line(100, [0, 5, 27], [0, 10, 30])]
# nobody has both, so that this seed has no precision there
SECOND = [line(100, [0, 8, 0], [0, 40, 0])]


def test_shares_of_the_last_epoch_by_hand(tmp_path):
    found = row(tmp_path, FIRST, SECOND, [{"step": 100, "epoch": 10.0}])
    assert right_shares(found) == [80.0, 20.0]
    assert vote_tables([("x", found)]) == [
        "| row | ≥ 1 of 2 | ≥ 2 of 2 |\n| --- | ---: | ---: |\n| x | 50.0 (100.0) | 90.0 (37.5) |"
    ]


def test_a_threshold_that_no_seed_reaches(tmp_path):
    assert "| x | 20.0 (100.0) | – (0.0) |" in vote_tables([("x", row(tmp_path, SECOND))])[0]


def test_a_single_ballot_always_agrees(tmp_path):
    found = row(tmp_path, [line(100, [0, 3], [0, 4])])
    assert right_shares(found) == [75.0]
    assert vote_tables([("x", found)]) == []


def test_rows_with_other_ballots_have_a_table_of_their_own(tmp_path):
    three = row(tmp_path / "a", [line(100, [0, 1, 1, 1], [0, 2, 2, 2])])
    tables = vote_tables([("x", three), ("y", row(tmp_path / "b", FIRST))])
    assert [table.splitlines()[-1][:4] for table in tables] == ["| y ", "| x "]


def test_without_semantic_positives_nobody_votes(tmp_path):
    base = row(tmp_path, FIRST, positives=0)
    assert right_shares(base) == []
    assert vote_tables([("x", base)]) == []
