from dataclasses import replace

import pytest

from semppl.ablate.own import AS_CONFIGURED, own_table
from semppl.ablate.table import applied
from semppl.ablate.tables import build_table
from semppl.core.errors import UserError
from semppl.presets import digits
from semppl.resolve import resolved

BASE = resolved(digits(), image_size=8, num_images=1437, num_classes=10)


def cells(*rows, base=BASE):
    return {row.name: applied(row, base) for row in own_table(base, rows).rows}


def test_rows_change_what_they_name_and_are_compared_with_the_configuration():
    table = own_table(BASE, ["method.positives=10,method.alpha=0.06", "optim.base-lr=0.01"])
    assert [row.against for row in table.rows] == [None, AS_CONFIGURED, AS_CONFIGURED]
    assert cells("method.positives=10,method.alpha=0.06", "optim.base-lr=0.01") == {
        AS_CONFIGURED: ("default", BASE),
        "method.positives=10,method.alpha=0.06": (
            "positives-10-alpha-0.06",
            replace(BASE, method=replace(BASE.method, positives=10, alpha=0.06)),
        ),
        "optim.base-lr=0.01": ("optim.base_lr-0.01", replace(BASE, optim=replace(BASE.optim, base_lr=0.01))),
    }


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("method.same-view=False", {"same_view": False}),
        ("method.divide-by-positives=False", {"divide_by_positives": False}),
        ("--method.negatives=None", {"negatives": None}),
        (" method.vote_power = 2 ", {"vote_power": 2.0}),
    ],
)
def test_values_are_those_of_flags(words, values):
    assert cells(words)[words][1].method == replace(BASE.method, **values)


def test_a_cell_that_a_table_of_the_paper_has_too_is_shared():
    for name in ("k", "positives", "alpha", "parts"):
        theirs = {applied(row, BASE) for row in build_table(name, BASE, ()).rows}
        values = {"k": "k=5", "positives": "positives=5", "alpha": "alpha=1", "parts": "labels=given"}
        assert cells(f"method.{values[name]}")[f"method.{values[name]}"] in theirs


def test_a_row_counts_once():
    assert list(cells("method.k=2", "method.k=2")) == [AS_CONFIGURED, "method.k=2"]


def test_a_base_without_semantic_positives_can_have_rows_too():
    bare = replace(BASE, method=replace(BASE.method, positives=0))
    table = build_table("own", bare, (), ["method.same-view=False"])
    assert applied(table.rows[1], bare)[0] == "same_view-False"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("method.k", "'method.k' is not NAME=VALUE, such as method.k=5"),
        ("method.k=2,,method.alpha=1", "'' is not NAME=VALUE"),
        ("method.k=", "'method.k=' is not NAME=VALUE"),
        ("data.masks=a/b", "'data.masks=a/b' is not NAME=VALUE"),
        ("method.kk=2", "there is no --method.kk, perhaps method.k"),
        ("base-lr=1", "there is no --base-lr, perhaps optim.base-lr"),
        ("seed=1", "leave seed out, seeds are those of --seeds"),
        ("device=cpu", "leave device out, it does not change what is computed"),
        ("method.k=many", "--method.k cannot be many"),
        ("method.tie=luck", "--method.tie cannot be luck"),
        ("method.tie=lowest", "changes nothing: leave it out"),
    ],
)
def test_what_cannot_be_a_row_is_refused_with_its_words(words, said):
    with pytest.raises(UserError, match=f"^--rows {words}") as error:
        own_table(BASE, [words])
    assert said in str(error.value)
