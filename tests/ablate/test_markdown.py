import json
from dataclasses import replace

from semppl.ablate.cell import Score
from semppl.ablate.markdown import MADE_BY, Facts, content, markdown_table, page
from semppl.ablate.summary import Summary
from semppl.ablate.tables import build_table
from semppl.config import Config

TABLE = build_table("parts", Config(), ())
WORDS = {"linear": "linear: 50 labels", "k-NN": "k-NN: 50 labels"}
SCORES = {
    (row.name, seed): Score(
        90.0 - 2 * i + 0.1 * seed * i,
        80.0,
        70.0 - i,
        1.25,
        WORDS,
        f"Python 3.11.7, semppl 0.1.0, {(seed and 'NVIDIA H200') or 'cpu'}",
    )
    for i, row in enumerate(TABLE.rows)
    for seed in (0, 1, 2)
}
SUMMARY = Summary(TABLE, range(3), SCORES)
FACTS = Facts(
    command="semppl ablate parts digits --seeds 3",
    configuration={"epochs": 80.0},
    sha256="abcdef0123456789",
    main="digits; 80 epochs",
    cells={(row.name, seed): f"cell{i}-seed{seed}" for i, row in enumerate(TABLE.rows) for seed in range(3)},
    changes={"SemPPL": "", "− pseudo-labels": "--method.labels given", "− semantic positives": "--x 0"},
    failed={},
)


def test_the_page_has_every_number_beside_the_papers_and_what_it_stands_on():
    text = page(SUMMARY, FACTS)
    for words in (
        "`semppl ablate parts digits --seeds 3` wrote this page",
        "seeds 0, 1, 2; mean ± standard deviation",
        "| − pseudo-labels | 61.9 | 71.1 | 88.1 ± 0.1 | 80.0 ± 0.0 | 69.0 ± 0.0 | −1.9 ± 0.1 (to SemPPL) |",
        "**Direction against the paper, of 2 differences: 2 × agrees.**",
        "- − pseudo-labels against SemPPL, linear: paper −6.6 and −4.9, ours −1.9 ± 0.1: agrees",
        "| − pseudo-labels | 88.0 | 88.1 | 88.2 |",
        "Protocol: linear: 50 labels; k-NN: 50 labels.",
        "(sha256 abcdef012345…, without its seed): digits; 80 epochs.",
        "| − pseudo-labels | `--method.labels given` | `cell1-seed0`, `cell1-seed1`, `cell1-seed2` | 1.2, ",
        "| SemPPL | nothing |",
        "Versions: Python 3.11.7, semppl 0.1.0, cpu; Python 3.11.7, semppl 0.1.0, NVIDIA H200.",
        "one-sided t-test",
    ):
        assert words in text
    assert MADE_BY in text.splitlines()[0]
    assert "Missing" not in text


def test_what_is_missing_is_said_with_its_reason():
    scores = {key: score for key, score in SCORES.items() if key != ("− pseudo-labels", 1)}
    text = page(Summary(TABLE, range(3), scores), replace(FACTS, failed={"cell1-seed1": "the disk is full"}))
    assert "Missing, so this table is not complete:\n\n- − pseudo-labels: seed 1\n" in text
    assert "- cell1-seed1 failed: the disk is full" in text
    assert "| − pseudo-labels | 88.0 | – | 88.2 |" in text


def test_one_seed_says_so():
    text = page(Summary(TABLE, [0], SCORES), FACTS)
    assert "Accuracy in per cent, seed 0." in text
    assert "One seed cannot tell a difference from chance" in text
    assert "**Direction against the paper, of 2 differences: 2 × one seed cannot tell.**" in text
    assert "agrees" not in text


def test_a_table_that_the_paper_does_not_have_says_nothing_of_it():
    table = build_table("own", Config(), (), ["method.k=2"])
    scores = {
        (row.name, seed): Score(80.0 + i + 0.1 * i * seed, 50.0, 60.0 - i, 1.0, WORDS, "")
        for i, row in enumerate(table.rows)
        for seed in range(3)
    }
    names = {key: key[0] for key in scores}
    facts = replace(FACTS, cells=names, changes={"as configured": "", "method.k=2": "--method.k 2"})
    text = page(Summary(table, range(3), scores), facts)
    assert "**2 differences: 1 × better, 1 × worse.**" in text
    assert "- method.k=2 against as configured, linear: +1.1 ± 0.1: better" in text
    assert "one-sided t-test" in text
    assert "paper" not in text


def test_the_learning_curve_has_a_page_of_its_own_kind():
    table = build_table("labels", Config(), (1, 4))
    scores = {(row.name, 0): Score(60.0 + i, 50.0, None, 1.0, WORDS, "") for i, row in enumerate(table.rows)}
    names = {(row.name, 0): row.name for row in table.rows}
    facts = replace(
        FACTS,
        cells=names,
        changes=dict.fromkeys((row.name for row in table.rows), ""),
        per_class=(1, 4),
        picture="labels.png",
    )
    text = page(Summary(table, [0], scores), facts)
    assert "| labels per class | SemPPL, linear | without, linear | gain |" in text
    assert "| 1 | 60.0 | 61.0 | −1.0 |" in text
    assert "![learning curve](labels.png)" in text
    assert "The gain from semantic positives is larger with fewer labels" in text


def test_the_data_holds_the_scores_behind_the_page():
    found = json.loads(json.dumps(content(SUMMARY, FACTS), allow_nan=False))
    assert found["made_by"] == MADE_BY
    row = found["rows"][1]
    assert row["seeds"]["2"]["linear"] == 88.2
    assert row["cells"]["2"] == "cell1-seed2"
    assert row["paper"] == {"1 %": 61.9, "10 %": 71.1}
    assert (row["verdict"], found["rows"][0]["verdict"]) == ("agrees", None)
    assert row["linear_difference"]["seeds"] == 3
    partial = content(Summary(TABLE, [0, 1], {("SemPPL", 0): SCORES["SemPPL", 0]}), FACTS)
    assert partial["rows"][1]["seeds"] == {"0": None, "1": None}
    assert partial["missing"][0] == "SemPPL: seed 1"


def test_a_table():
    assert markdown_table(("a", "b"), [("x", "1")]) == "| a | b |\n| --- | ---: |\n| x | 1 |"
