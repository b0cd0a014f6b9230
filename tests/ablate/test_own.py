import re
from dataclasses import replace

import pytest

from semppl.ablate.own import AS_CONFIGURED, own_table, require_different, said_with
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


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("method.target-decay=0.9999996", "method.target-decay=0.9999998"),
        ("net.encoder=timm:a/b", "net.encoder=timm:a.b"),
        ("net.mean=0.5 0.5 0.5", "net.mean=0.5 0.5 0.6"),
    ],
)
def test_values_that_differ_have_cells_of_their_own_whose_names_are_plain(one, other):
    (first, config), (second, another) = (cells(words)[words] for words in (one, other))
    assert first != second
    assert config != another
    assert re.fullmatch(r"[\w.+-]+", first)
    assert re.fullmatch(r"[\w.+-]+", second)


def test_rows_that_compute_the_same_are_refused():
    require_different([(AS_CONFIGURED, "default"), ("a=1", "a-1"), ("b=1", "b-1")])
    with pytest.raises(UserError, match=r"^--rows b=2 changes nothing: leave it out"):
        require_different([(AS_CONFIGURED, "default"), ("b=2", "default")])
    with pytest.raises(UserError, match=r"^--rows b=2 is the same as a=1: leave it out"):
        require_different([(AS_CONFIGURED, "default"), ("a=1", "x"), ("b=2", "x")])


def test_what_is_wrong_with_a_row_is_said_with_it():
    with pytest.raises(UserError, match=r"^--rows a=1: no$"), said_with("a=1"):
        raise UserError("no")


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
        ("method.positivs=2", "there is no value method.positivs in config.yaml, perhaps method.positives"),
        ("base-lr=1", "there is no value base-lr in config.yaml, perhaps optim.base-lr"),
        ("METHOD.K=2", "there is no value METHOD.K in config.yaml, perhaps method.k"),
        ("xyzzy=2", "there is no value xyzzy in config.yaml"),
        ("seed=1", "leave seed out, seeds are those of --seeds"),
        ("device=cpu", "leave device out, it does not change what is computed"),
        ("method.k=many", "--method.k cannot be many"),
        ("method.tie=luck", "--method.tie cannot be luck"),
        ("optim.base-lr=nan", "--optim.base-lr is nan: it must be a finite number"),
        ("data.split-seed=7", "leave data.split-seed out, seeds are those of --seeds"),
        ("method.k=5 --method.alpha 0.3", "'5 --method.alpha 0.3' is more than a value"),
        ("net.mean=0.5 --seed 9", "'0.5 --seed 9' is more than a value"),
    ],
)
def test_what_cannot_be_a_row_is_refused_with_its_words(words, said):
    with pytest.raises(UserError, match=f"^--rows {words}") as error:
        own_table(BASE, [words])
    assert said in str(error.value)
