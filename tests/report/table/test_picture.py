from dataclasses import replace

import pytest
from PIL import Image
from tests.report.table.conftest import configured, numbers, outcome

from semppl.report.table.beside import Published
from semppl.report.table.picture import draw_, lines, published_lines, worth_drawing
from semppl.report.table.sections import sections
from semppl.report.table.settings import MADE_BY

FEW = {"labels": 40, "name": "f", "labels_per_class": 4}


@pytest.fixture
def made(tmp_path):
    """Three methods with 4,000 and 40 labels, SemPPL with two seeds in the first."""
    base = {"linear": outcome(70.0), "linear-f": outcome(30.0, **FEW), "knn": outcome(69.0)}
    found = numbers(tmp_path / "base", configured(method={"positives": 0}), base)
    for seed, value in enumerate((80.0, 84.0)):
        tuned = outcome(value + 10, consistency=True, epochs=9, name="c")
        many = {"linear": outcome(value), "knn": outcome(10.0), "finetune-c": tuned}
        found += numbers(tmp_path / f"many{seed}", configured(seed=seed), many)
    few = {"linear": outcome(60.0, labels=40), "knn": outcome(55.0, labels=40)}
    found += numbers(tmp_path / "few", configured(per_class=4), few)
    alone = {"supervised": outcome(50.0), "supervised-f": outcome(20.0, **FEW)}
    return sections(found + numbers(tmp_path / "alone", configured(seed=5), alone))


def test_lines_by_hand(made):
    found = {line.name: line.points for line in lines(made)}
    assert found == {
        "supervised only": {4000: (50.0, 0.0), 40: (20.0, 0.0)},
        "ReLICv2, linear": {4000: (70.0, 0.0), 40: (30.0, 0.0)},
        "SemPPL, linear": {4000: (82.0, pytest.approx(8**0.5)), 40: (60.0, 0.0)},
    }, "fine-tuning has one point"
    assert [line.name for line in lines(made)] == list(found), "in the order of the tables"


def test_a_line_of_all_images_without_pre_training(tmp_path):
    def tuned(value, **flags):
        flags = {"name": "c", "consistency": True, "epochs": 9, **flags}
        return outcome(value, **flags) | {"settings": {"epochs": 9}}

    both = {"supervised-c": tuned(80.0), "supervised-f": tuned(60.0, **FEW)}
    both |= {"finetune-c": tuned(90.0), "finetune-f": tuned(70.0, **FEW)}
    found = lines(sections(numbers(tmp_path / "a", configured(method={"positives": 0}), both)))
    column = "fine-tuned with `--epochs 9 --consistency`"
    assert {line.name: line.points for line in found} == {
        f"no pre-training, {column}": {4000: (80.0, 0.0), 40: (60.0, 0.0)},
        f"ReLICv2, {column}": {4000: (90.0, 0.0), 40: (70.0, 0.0)},
    }


def test_what_takes_the_method_apart_is_left_to_the_tables(tmp_path):
    both = {"linear": outcome(9.0), "linear-f": outcome(8.0, **FEW)}
    found = []
    for place, method in enumerate([{"objective": "byol"}, {"labels": "oracle"}, {"labels": "given"}, {}]):
        found += numbers(tmp_path / str(place), configured(method=method), both)
    assert [line.name for line in lines(sections(found))] == ["SemPPL, linear"]


def test_neighbours_only_where_there_is_no_classifier(tmp_path):
    both = {"knn": outcome(9.0), "knn-f": outcome(8.0, **FEW)}
    found = lines(sections(numbers(tmp_path / "a", configured(method={"positives": 0}), both)))
    assert [(line.name, line.style) for line in found] == [("ReLICv2, k-NN", "--")]


def test_the_longest_of_two_rows_with_one_seed(tmp_path):
    both = {"linear": outcome(9.0), "linear-f": outcome(8.0, **FEW)}
    found = numbers(tmp_path / "a", configured(epochs=5.0, method={"positives": 0}), both)
    longer = {"linear": outcome(19.0), "linear-f": outcome(18.0, **FEW)}
    found += numbers(tmp_path / "b", configured(method={"positives": 0}), longer)
    (line,) = lines(sections(found))
    assert line.points == {4000: (19.0, 0.0), 40: (18.0, 0.0)}


def test_a_line_has_one_number_of_epochs_that_of_most_runs(tmp_path):
    alone = {"supervised": outcome(5.0), "supervised-f": outcome(4.0, **FEW)}
    found = numbers(tmp_path / "alone", configured(epochs=1.0), alone)
    for place, (value, per_class, labels) in enumerate([(10.0, 400, 4000), (9.0, 4, 40), (8.0, 25, 250)]):
        config = configured(epochs=5.0, per_class=per_class)
        found += numbers(tmp_path / f"short{place}", config, {"linear": outcome(value, labels=labels)})
    for place, (value, per_class, labels) in enumerate([(19.0, 400, 4000), (17.0, 25, 250)]):
        config = configured(epochs=8.0, per_class=per_class)
        found += numbers(tmp_path / f"long{place}", config, {"linear": outcome(value, labels=labels)})
    assert {line.name: line.points for line in lines(sections(found))} == {
        "supervised only": {4000: (5.0, 0.0), 40: (4.0, 0.0)},
        "SemPPL, 5 epochs, linear": {4000: (10.0, 0.0), 250: (8.0, 0.0), 40: (9.0, 0.0)},
    }


def linear(path, values, **changes):
    """A SemPPL run for each number of labels, or one without positives for all of them."""
    per_class = {4000: 400, 250: 25, 40: 4}
    if "method" in changes:
        named = {"" if labels == 4000 else f"-{labels}": (labels, value) for labels, value in values.items()}
        files = {
            f"linear{name}": outcome(value, labels=labels, name=name[1:], labels_per_class=per_class[labels])
            for name, (labels, value) in named.items()
        }
        return numbers(path, configured(**changes), files)
    return [
        each
        for labels, value in values.items()
        for each in numbers(
            path / str(labels),
            configured(per_class=per_class[labels], **changes),
            {"linear": outcome(value, labels=labels)},
        )
    ]


def test_a_method_that_has_no_line_of_the_common_length_has_one_of_its_own(tmp_path):
    found = linear(tmp_path / "base", {4000: 70.0, 250: 60.0, 40: 50.0}, epochs=8.0, method={"positives": 0})
    found += linear(tmp_path / "ours", {250: 9.0, 40: 8.0}, epochs=5.0)
    assert {line.name: line.points for line in lines(sections(found))} == {
        "ReLICv2, 8 epochs, linear": {4000: (70.0, 0.0), 250: (60.0, 0.0), 40: (50.0, 0.0)},
        "SemPPL, 5 epochs, linear": {250: (9.0, 0.0), 40: (8.0, 0.0)},
    }


def test_lines_have_the_length_with_which_all_of_them_have_the_most_points(tmp_path):
    without = {"method": {"positives": 0}}
    found = linear(tmp_path / "a", {4000: 1.0, 250: 2.0, 40: 3.0}, epochs=8.0, **without)
    found += linear(tmp_path / "b", {4000: 4.0, 250: 5.0, 40: 6.0}, epochs=5.0, **without)
    found += linear(tmp_path / "c", {4000: 7.0, 250: 8.0}, epochs=8.0)
    found += linear(tmp_path / "d", {4000: 9.0, 250: 10.0, 40: 11.0}, epochs=5.0)
    assert {line.name: [mean for mean, _ in line.points.values()] for line in lines(sections(found))} == {
        "ReLICv2, 5 epochs, linear": [4.0, 5.0, 6.0],
        "SemPPL, 5 epochs, linear": [9.0, 10.0, 11.0],
    }


def test_a_line_of_three_seeds_is_not_left_for_two_of_one(tmp_path):
    found = []
    for seed in range(3):
        found += linear(tmp_path / f"long{seed}", {4000: 9.0, 40: 8.0}, epochs=8.0, seed=seed)
    for per_class, labels in ((400, 4000), (4, 40)):
        both = {"linear": outcome(1.0, labels=labels), "finetune": outcome(2.0, labels=labels)}
        found += numbers(tmp_path / f"short{labels}", configured(epochs=5.0, per_class=per_class), both)
    assert [line.name for line in lines(sections(found))] == ["SemPPL, 8 epochs, linear"]


def test_rows_that_take_the_method_apart_do_not_choose_its_length(tmp_path):
    found = linear(tmp_path / "main", {4000: 9.0, 40: 8.0}, epochs=8.0)
    for place, method in enumerate([{"labels": "oracle"}, {"labels": "given"}, {"objective": "byol"}]):
        found += linear(tmp_path / str(place), {4000: 1.0, 40: 1.0}, epochs=5.0, method=method)
    assert [(line.name, line.points) for line in lines(sections(found))] == [
        ("SemPPL, linear", {4000: (9.0, 0.0), 40: (8.0, 0.0)})
    ]


def test_a_length_counts_by_the_points_on_its_lines(tmp_path):
    tuned = outcome(99.0, labels=40, labels_per_class=4)
    apart = numbers(tmp_path / "a" / "many", configured(epochs=8.0), {"linear": outcome(1.0)})
    apart += numbers(tmp_path / "a" / "few", configured(epochs=8.0, per_class=4), {"finetune": tuned})
    found = apart + linear(tmp_path / "b", {4000: 7.0, 40: 6.0}, epochs=5.0)
    assert [line.name for line in lines(sections(found))] == ["SemPPL, 5 epochs, linear"], (
        "two columns with a point each are no line"
    )
    longer = linear(tmp_path / "c", {4000: 9.0, 40: 8.0}, epochs=8.0)
    assert [line.name for line in lines(sections(longer + found[2:]))] == ["SemPPL, 8 epochs, linear"]


def test_epochs_that_are_not_known_are_no_reason_to_fail(tmp_path):
    found = linear(tmp_path / "a", {4000: 9.0, 40: 8.0}, epochs=8.0)
    found += linear(tmp_path / "b", {4000: 7.0, 40: 6.0}, epochs=None)
    assert [line.name for line in lines(sections(found))] == ["SemPPL, linear"]
    assert [line.points[40] for line in lines(sections(found[2:]))] == [(6.0, 0.0)]


def test_the_row_with_the_most_seeds_is_drawn(tmp_path):
    found = linear(tmp_path / "five", {4000: 1.0, 40: 1.0}, optim=replace(configured().optim, base_lr=0.9))
    for seed in (0, 1):
        found += linear(tmp_path / str(seed), {4000: 9.0, 40: 8.0}, seed=seed)
    (line,) = lines(sections(found))
    assert line.points == {4000: (9.0, 0.0), 40: (8.0, 0.0)}


def test_epochs_that_minutes_decided_are_not_told(tmp_path):
    found = linear(tmp_path / "a", {4000: 1.0, 40: 3.0}, epochs=8.0, method={"positives": 0})
    found += linear(tmp_path / "b", {4000: 1.0, 40: 3.0}, epochs=5.0, method={"positives": 0})
    for labels, epochs in ((4000, 10.0), (40, 9.0)):
        (tmp_path / "fit" / str(labels)).mkdir(parents=True)
        (tmp_path / "fit" / str(labels) / "fit.yaml").write_text("minutes: 3.0\n")
        found += linear(tmp_path / "fit", {labels: 2.0}, epochs=epochs)
    assert [line.name for line in lines(sections(found))] == ["ReLICv2, 8 epochs, linear", "SemPPL, linear"]


def test_other_networks_are_left_to_the_tables(tmp_path):
    net = replace(configured().net, encoder="wrn28-2")
    both = {"linear": outcome(9.0), "linear-f": outcome(8.0, **FEW)}
    found = numbers(tmp_path / "a", configured(), both) + numbers(tmp_path / "b", configured(seed=1), both)
    found += numbers(tmp_path / "c", configured(net=net), {"linear": outcome(99.0)})
    (line,) = lines(sections(found))
    assert line.points == {4000: (9.0, 0.0), 40: (8.0, 0.0)}


def test_the_first_of_equals(tmp_path):
    both = {"linear": outcome(9.0), "linear-f": outcome(8.0, **FEW)}
    found = numbers(tmp_path / "a", configured(), both)
    found += numbers(tmp_path / "b", configured(method={"positives": 5}), {"linear": outcome(99.0)})
    (line,) = lines(sections(found))
    assert line.points == {4000: (9.0, 0.0), 40: (8.0, 0.0)}


@pytest.mark.parametrize("text", ["?", "95.7 (3 seeds)", "95,7", "error 4.3", "95.7 ±", ""])
def test_what_is_no_published_number(text):
    assert not published_lines([Published("A", labels, "9", text, "") for labels in (40, 250)])


def test_published_numbers():
    rows = [
        Published("A", 40, "9", "91.7 ± 1.4", ""),
        Published("A", 250, "9", "95", ""),
        Published("C", 40, "9", "90.1", ""),
    ]
    (line,) = published_lines(rows)
    assert (line.name, line.points) == ("published: A", {40: (91.7, 1.4), 250: (95.0, 0.0)})


def test_the_picture_has_ours_and_theirs_and_says_whose_it_is(made, tmp_path):
    published = [Published("A", labels, "9", "91.7 ± 1.4", "") for labels in (40, 4000, 250)]
    draw_(tmp_path / "a", made, published)
    draw_(tmp_path / "b", made, [])
    assert (tmp_path / "a").read_bytes() != (tmp_path / "b").read_bytes()
    with Image.open(tmp_path / "a") as image:
        assert image.info["Software"] == MADE_BY


def test_nothing_to_draw(made):
    assert worth_drawing(made)
    assert not worth_drawing(made[:1]), "one number of labels is no line"
    other = type(made[1])(("other.npz", ""), made[1].labels, made[1].rows)
    assert not worth_drawing([made[0], other]), "two data sets"
