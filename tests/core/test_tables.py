from semppl.core.tables import markdown_table, spread


def test_mean_and_deviation_over_seeds():
    assert spread([]) == "–"
    assert spread([91.25]) == "91.2"
    assert spread([90.0, 92.0]) == "91.0 ± 1.4"


def test_a_table_in_markdown():
    assert markdown_table(("row", "a"), [("x", "1"), ("y", "2")]) == (
        "| row | a |\n| --- | ---: |\n| x | 1 |\n| y | 2 |"
    )
