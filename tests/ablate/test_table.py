from dataclasses import replace

from semppl.ablate.table import PSEUDO, Change, Row, Table, applied
from semppl.config import Config

SLOW = Change("slow", lambda config: replace(config, epochs=600.0))
TINY = Change("tiny", lambda config: replace(config, batch_size=4))
AS_IT_IS = Change("same", lambda config: replace(config, epochs=300.0))


def test_a_cell_is_named_by_what_really_changes():
    assert applied(Row("a"), Config()) == ("default", Config())
    assert applied(Row("a", (AS_IT_IS,)), Config())[0] == "default"
    slug, config = applied(Row("a", (SLOW, AS_IT_IS, TINY)), Config())
    assert slug == "slow-same-tiny"
    assert (config.epochs, config.batch_size) == (300.0, 4)
    assert applied(Row("a", (AS_IT_IS, TINY)), Config())[0] == "tiny"


def test_differences_of_the_paper_are_of_columns_that_both_rows_have():
    table = Table(
        "t",
        "T",
        [
            Row("all", (), {"1 %": 68.5, "10 %": 76.0, PSEUDO: 70.0}),
            Row("less", (), {"10 %": 71.1, PSEUDO: 60.5}, "all"),
            Row("none", (), {"100 %": 50.0}, "all"),
            Row("told", (), {}, "all", (-3.0,)),
        ],
        "somewhere",
    )
    assert table.columns == ["1 %", "10 %", PSEUDO, "100 %"]
    assert table.paper_differences(table.row("all"), pseudo=False) == []
    assert table.paper_differences(table.row("less"), pseudo=False) == [-4.9]
    assert table.paper_differences(table.row("less"), pseudo=True) == [-9.5]
    assert table.paper_differences(table.row("none"), pseudo=False) == []
    assert table.paper_differences(table.row("told"), pseudo=False) == [-3.0]
    assert table.paper_differences(table.row("told"), pseudo=True) == []
