from dataclasses import replace

import pytest

from semppl.ablate.settings import TABLES
from semppl.ablate.table import PSEUDO, applied
from semppl.ablate.tables import build_table
from semppl.config import Config, MethodConfig
from semppl.core.errors import UserError
from semppl.presets import digits, paper
from semppl.resolve import resolved


def complete(config, num_images=1437, num_classes=10, size=8):
    return resolved(config, image_size=size, num_images=num_images, num_classes=num_classes)


BASE = complete(digits())
PAPER = complete(paper(), 1_281_167, 1000, 224)


def cells(name, base=BASE, per_class=(5,)):
    table = build_table(name, base, per_class)
    return {row.name: applied(row, base) for row in table.rows}


@pytest.mark.parametrize("name", TABLES)
def test_every_row_can_be_trained_and_is_compared_with_a_row(name):
    table = build_table(name, BASE, (1, 5), ["method.k=2"])
    assert table.name == name
    names = [row.name for row in table.rows]
    assert len(set(names)) == len(names)
    found = {}
    for row in table.rows:
        assert row.against is None or table.row(row.against).against in (None, "ReLICv2")
        slug, config = applied(row, BASE)
        assert found.setdefault(slug, config) == config
        complete(config)


@pytest.mark.parametrize("name", [name for name in TABLES if name not in ("labels", "base", "oracle")])
def test_the_papers_own_configuration_is_the_reference_of_each_table(name):
    table = build_table(name, PAPER, (), ["method.k=2"])
    (reference,) = [row for row in table.rows if row.against is None]
    assert applied(reference, PAPER) == ("default", PAPER)


def test_numbers_are_the_papers():
    def numbers(name):
        return {
            row.name: tuple(row.paper.get(column) for column in ("1 %", "10 %", PSEUDO))
            for row in build_table(name, PAPER, ()).rows
        }

    assert numbers("parts") == {
        "SemPPL": (68.5, 76.0, None),
        "− pseudo-labels": (61.9, 71.1, None),
        "− semantic positives": (58.1, 72.4, None),
    }
    assert numbers("voting") == {"on": (None, 69.9, 68.6), "off": (None, 69.0, 62.5)}
    assert numbers("queue")["4,096 (paper: 4,000)"] == (None, 67.9, 53.1)
    assert numbers("epochs")["500 (paper: 500)"] == (None, 72.3, 75.6)
    assert list(numbers("alpha").values()) == [(None, 72.4, None), (None, 76.0, None), (None, 74.6, None)]


def test_scaled_tables_keep_the_papers_ratios():
    epochs = [config.epochs for _, config in cells("epochs").values()]
    assert epochs == pytest.approx([80 / 3, 160 / 3, 80, 400 / 3])
    queue = [config.method.queue_capacity for _, config in cells("queue").values()]
    assert queue == [26, 51, 77, 128, 256, 512, 1280]
    assert cells("queue")["512 (paper: 80,000)"][0] == "default"


def test_a_tiny_queue_keeps_at_least_one_entry():
    base = replace(BASE, method=replace(BASE.method, queue_capacity=2))
    sizes = [config.method.queue_capacity for _, config in cells("queue", base).values()]
    assert sizes == [1, 1, 1, 1, 1, 2, 5]


def test_with_one_ballot_no_threshold_is_left_and_both_rows_are_without():
    found = cells("voting")
    off, on = found["off"][1].method, found["on"][1].method
    assert (off.voting, off.minimum_votes) == ("one", 0)
    assert on == replace(off, voting="all")
    assert found["on, as configured"] == ("default", BASE)
    assert found["off"][0] == "votes-0-voting-one"
    assert build_table("voting", BASE, ()).note.endswith("the last row asks for 3 of 4 ballots")


def test_with_one_ballot_no_weight_is_left_either():
    base = replace(BASE, method=replace(BASE.method, minimum_votes=0, vote_power=2.0))
    found = cells("voting", base)
    assert [found[row][1].method.vote_power for row in ("on", "off", "on, as configured")] == [0, 0, 2]
    assert found["on"][1].method == replace(found["off"][1].method, voting="all")
    assert build_table("voting", base, ()).note.endswith("weighs by the share of ballots to the power 2")


def test_without_a_threshold_view_voting_has_the_papers_two_rows():
    base = replace(BASE, method=replace(BASE.method, minimum_votes=0))
    assert {name: slug for name, (slug, _) in cells("voting", base).items()} == {
        "on": "default",
        "off": "voting-one",
    }


def test_another_objective_has_its_own_negatives_and_pairs():
    found = {name: complete(config).method for name, (_, config) in cells("base").items()}
    assert (found["SimCLR"].negatives, found["SimCLR"].same_view, found["SimCLR"].positives) == (
        127,
        False,
        0,
    )
    byol = found["BYOL + semantic positives"]
    assert (byol.negatives, byol.same_view, byol.positives) == (0, False, 3)
    assert cells("base")["ReLICv2 + semantic positives"] == ("default", BASE)


def test_tables_share_their_cells():
    without = cells("parts")["− semantic positives"]
    assert without == cells("alpha")["0 (no semantic positives)"] == cells("base")["ReLICv2"]
    assert without == cells("labels")["5 per class − semantic positives"]
    assert cells("labels")["5 per class"] == ("default", BASE)


def test_labels_per_class_replace_a_fraction():
    base = complete(replace(digits(), data=replace(digits().data, labels_per_class=None, label_fraction=0.1)))
    data = cells("labels", base, (2,))["2 per class"][1].data
    assert (data.labels_per_class, data.label_fraction) == (2, None)


@pytest.mark.parametrize("method", [{"positives": 0}, {"alpha": 0.0}, {"labels": "given"}])
def test_what_is_not_semppl_is_not_taken_apart(method):
    with pytest.raises(UserError, match="starts from all of it"):
        build_table("parts", complete(Config(method=MethodConfig(**method))), ())
