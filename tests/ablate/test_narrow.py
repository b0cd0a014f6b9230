import pytest

from semppl.ablate.narrow import narrowed

COLUMNS = ("row", "paper", "linear", "k-NN")
ROWS = [["a long name", "1.0 / 2.0", "76.9 ± 14.2", "5.0"], ["b", "–", "1.0", "6.0"]]
SPARE = (("paper",), ("linear", "k-NN"))
# │ a long name │ 1.0 / 2.0 │ 76.9 ± 14.2 │ k-NN │: 11 + 9 + 11 + 4, three more for each and one at the end
WHOLE = 35 + 4 * 3 + 1


@pytest.mark.parametrize(
    ("width", "kept"),
    [
        (WHOLE, [0, 1, 2, 3]),
        (WHOLE - 1, [0, 2, 3]),
        (WHOLE - 9 - 3, [0, 2, 3]),
        (WHOLE - 9 - 4, [0]),
        (1, [0]),
    ],
)
def test_groups_go_one_by_one_until_it_fits(width, kept):
    columns, rows = narrowed(COLUMNS, ROWS, SPARE, width)
    assert columns == [COLUMNS[i] for i in kept]
    assert rows == [[row[i] for i in kept] for row in ROWS]


def test_a_table_without_rows_has_the_width_of_its_names():
    assert narrowed(("a", "b"), [], (("b",),), 9) == (["a", "b"], [])
    assert narrowed(("a", "b"), [], (("b",),), 8) == (["a"], [])
