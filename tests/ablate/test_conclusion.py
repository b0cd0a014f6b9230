import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from semppl.ablate.cell import Cell, Score
from semppl.ablate.conclusion import conclude, main_values, show
from semppl.ablate.files import TableFiles
from semppl.ablate.plan import Plan
from semppl.ablate.settings import AblateFlags
from semppl.ablate.summary import Summary
from semppl.ablate.table import applied
from semppl.ablate.tables import build_table
from semppl.core.errors import RunError
from semppl.parse import parse
from semppl.presets import digits
from semppl.resolve import resolved

BASE = resolved(digits(), image_size=8, num_images=1437, num_classes=10)
SCORE = Score(90.0, 80.0, None, 1.0, {}, "torch 2")


@pytest.mark.parametrize("table", ["base", "labels", "parts", "epochs", "queue", "alpha", "voting"])
def test_tables_fit_into_80_columns_with_every_number_whole(table):
    per_class = (1, 2, 4, 10, 25) if table == "labels" else ()
    built = build_table(table, BASE, per_class)
    scores = {
        (row.name, seed): Score(10.0 + 25 * seed + i, 11.0 + 26 * seed, 12.0 + 27 * seed, 1.0, {}, "")
        for i, row in enumerate(built.rows)
        for seed in range(3)
    }
    out = io.StringIO()
    show(Summary(built, range(3), scores), per_class, Console(file=out, width=80))
    lines = [line for line in out.getvalue().splitlines() if line[:1] == "│"]
    assert len(lines) == (len(per_class) or len(built.rows)), "no cell is folded"
    assert max(len(line) for line in lines) <= 80
    assert "│ 35.0 ± 25.0 │" in lines[0]
    assert "39.0 ± 27.0" in lines[0]


def planned(tmp_path, base=BASE, table="parts", rows=()):
    """A table with one seed."""
    built = build_table(table, base, (), rows)
    grid = {}
    for row in built.rows:
        slug, config = applied(row, base)
        grid[row.name, 0] = Cell(f"{slug}-seed0", config, tmp_path / slug, 1437)
    return Plan(built, base, [0], grid)


@pytest.fixture
def out():
    return io.StringIO()


@pytest.fixture
def conclusion(tmp_path, out):
    files = TableFiles(tmp_path / "kept", "parts", "--keep")

    def made(plan, scores, failed):
        return conclude(plan, scores, AblateFlags(), files, Console(file=out, width=100), "semppl …", failed)

    return made


def test_data_has_no_folder_of_the_machine_and_flags_are_those_that_a_row_changes(conclusion, tmp_path, out):
    (tmp_path / "kept").mkdir()
    plan = planned(tmp_path, replace(BASE, source="/home/somebody/all.npz"))
    found = conclusion(plan, {"default-seed0": SCORE}, {"elsewhere": "a cell of another table"})
    assert found["configuration"]["source"] == "all.npz"
    assert [row["changes"] for row in found["rows"]] == ["", "--method.labels given", "--method.positives 0"]
    assert (found["failed"], found["versions"]) == ({}, ["torch 2"])
    assert json.loads((tmp_path / "kept" / "parts.json").read_text()) == json.loads(json.dumps(found))
    assert "written: " in out.getvalue()


def test_changes_are_flags_that_pretrain_takes_with_all_their_digits(conclusion, tmp_path):
    (tmp_path / "kept").mkdir()
    rows = ("method.divide-by-positives=False", "method.target-decay=0.99999996", "net.mean=0.5 0.5 0.5")
    found = conclusion(planned(tmp_path, table="own", rows=rows), {"default-seed0": SCORE}, {})
    changes = [row["changes"] for row in found["rows"][1:]]
    assert changes == [
        "--method.no-divide-by-positives",
        "--method.target-decay 0.99999996",
        "--net.mean 0.5 0.5 0.5",
    ]
    config = parse(["pretrain", "digits", *" ".join(changes).split(), "--net.std", "1", "1", "1"]).config
    assert (config.method.divide_by_positives, config.method.target_decay) == (False, 0.99999996)


def test_without_a_score_nothing_is_written_or_shown(conclusion, tmp_path, out):
    conclusion(planned(tmp_path), {"alpha-1-seed0": SCORE}, {})
    assert (out.getvalue(), list(tmp_path.iterdir())) == ("", [])


def test_a_table_that_cannot_be_written_is_shown_all_the_same(conclusion, tmp_path, out):
    (tmp_path / "kept").touch()
    with pytest.raises(RunError, match=r"kept/parts\.md cannot be written \(.*\): make room, or .* --keep"):
        conclusion(planned(tmp_path), {"default-seed0": SCORE}, {})
    assert "│ SemPPL" in out.getvalue()


def test_a_configuration_in_a_few_words():
    assert main_values(BASE).startswith("digits; 5 labels per class; 80 epochs of batches of 128; resnet10, ")
