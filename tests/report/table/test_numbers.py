from dataclasses import replace

from tests.report.table.conftest import configured, numbers, outcome

from semppl.report.table.beside import Published
from semppl.report.table.numbers import bullets, cell, devices, section_parts
from semppl.report.table.sections import sections


def page(found, published=()):
    (section,) = sections(found)
    return "\n\n".join(part for part in section_parts(section, published, "4,000 labels") if part)


def lines(text, start):
    return [line for line in text.splitlines() if line.startswith(start)]


def test_a_table_by_hand(tmp_path):
    # 100 steps of 16 images at 1,000 a second are 0.03 minutes; the last epoch is steps 95 and 100, where
    # 5 + 10 + 14 + 19 and 5 + 10 + 15 + 20 of 80 pseudo-labels are right: 61.25 %
    found = []
    for seed, value in enumerate((90.0, 92.0)):
        evaluations = {"knn": outcome(value, protocol="k-NN: cosine"), "finetune": outcome(95.0)}
        found += numbers(
            tmp_path / str(seed), configured(seed=seed), evaluations if seed else {"knn": evaluations["knn"]}
        )
    text = page(found)
    assert lines(text, "| row")[0] == (
        "| row | epochs | seeds | k-NN | fine-tuned | pseudo-labels right | minutes of training "
        "| of fine-tuning | device |"
    )
    assert (
        lines(text, "| SemPPL")[0]
        == "| SemPPL | 10 | 2 | 91.0 ± 1.4 | 95.0 (1) | 61.2 ± 0.0 | 0.0 | 1.0 | H200 |"
    )
    assert lines(text, "- ") == ["- k-NN: cosine", "- fine-tuned: as usual"]
    assert "Data: cifar.npz (sha256 abababababab…); 1,000 test images (sha256 cdcdcdcdcdcd…)." in text
    assert text.startswith("## 4,000 labels\n")


def test_rows_of_one_name_have_pseudo_labels_of_their_own(tmp_path, monkeypatch):
    found = []
    for epochs in (5.0, 10.0):
        config = replace(configured(), epochs=epochs)
        found += numbers(tmp_path / str(epochs), config, {"knn": outcome(90.0)})
    monkeypatch.setattr("semppl.report.table.numbers.right_shares", lambda row: [10 * float(row.epochs)])
    text = page(found)
    cells = [line.split(" | ")[4] for line in lines(text, "| SemPPL")[:2]]
    assert cells == ["50.0", "100.0"]
    votes = [line.split(" | ")[0] for line in lines(text, "| SemPPL")[2:]]
    assert votes == ["| SemPPL, 5 epochs", "| SemPPL, 10 epochs"]


def test_what_goes_without_saying_is_said_once_below_the_table(tmp_path):
    found = []
    for i, method in enumerate(({}, {"k": 5}, {}, {"positives": 0})):
        found += numbers(tmp_path / str(i), configured(epochs=5.0 + i, method=method), {"knn": outcome(90.0)})
    assert lines(page(found), "“SemPPL”") == ["“SemPPL” has k 1 where its name says nothing else."]
    assert not lines(page(found[:1]), "“SemPPL”")


def test_fewer_seeds_than_the_row_has_are_said(tmp_path):
    found = []
    for seed in range(3):
        evaluations = {"knn": outcome(90.0)} | ({"linear": outcome(80.0)} if seed else {})
        found += numbers(tmp_path / str(seed), configured(seed=seed, method={"positives": 0}), evaluations)
    assert lines(page(found), "| ReLICv2") == [
        "| ReLICv2 | 10 | 3 | 90.0 ± 0.0 | 80.0 ± 0.0 (2) | 0.0 | H200 |"
    ]


def test_a_seed_with_several_splits(tmp_path):
    evaluations = {
        f"knn-s{split}": outcome(90.0 + split, name=f"s{split}", split_seed=split) for split in range(3)
    }
    found = numbers(tmp_path / "a", configured(method={"positives": 0}), evaluations)
    assert lines(page(found), "| ReLICv2") == ["| ReLICv2 | 10 | 1 (3 splits) | 91.0 ± 1.0 | 0.0 | H200 |"]


def test_labels_alone_stand_with_the_fine_tuned(tmp_path):
    evaluations = {
        "supervised": outcome(60.0, protocol="supervised only: from random weights"),
        "finetune-c": outcome(90.0, name="c", consistency=True),
        "finetune": outcome(85.0),
    }
    text = page(numbers(tmp_path / "a", configured(), evaluations))
    assert lines(text, "| supervised") == ["| supervised only | – | 1 | 60.0 | – | – | 1.0 | – | H200 |"]
    assert lines(text, "| SemPPL")[0].split(" | ")[3:5] == ["85.0", "90.0"]
    assert " 1.0 / 1.0 | H200" in lines(text, "| SemPPL")[0], "minutes of both ways to fine-tune"
    assert "“supervised only” is the same network from random weights" in text
    assert lines(text, "- fine-tuned (") == [
        "- fine-tuned (supervised only): supervised only: from random weights",
        "- fine-tuned (SemPPL): as usual",
    ]


def test_all_images_from_random_weights_are_a_row_in_the_column_of_those_that_are_fine_tuned_so(tmp_path):
    evaluations = {
        "supervised": outcome(60.0),
        "supervised-c": outcome(80.0, name="c", consistency=True) | {"settings": {"epochs": 60}},
        "finetune-c": outcome(90.0, name="c", consistency=True),
    }
    text = page(numbers(tmp_path / "a", configured(), evaluations))
    assert lines(text, "| supervised only") == ["| supervised only | – | 1 | 60.0 | – | – | 1.0 | – | H200 |"]
    assert lines(text, "| no pre-training") == [
        "| no pre-training | 60 | 1 | – | 80.0 | – | 1.0 | – | H200 |"
    ]
    assert lines(text, "| SemPPL")[0].split(" | ")[3:5] == ["–", "90.0"]
    assert text.index("| supervised") < text.index("| no pre-training") < text.index("| SemPPL")
    assert "“no pre-training” is the same network from random weights, trained on all images" in text


def test_published_rows_come_below_and_are_marked(tmp_path):
    given = [Published("Fix|Match", 4000, "", "95.7", "its table 2")]
    text = page(numbers(tmp_path / "a", configured(), {"knn": outcome(90.0)}), given)
    assert "Published by others with as many labels, and not run here:" in text
    assert lines(text, "| Fix") == ["| Fix\\|Match | – | 95.7 | its table 2 |"]
    assert text.index("| SemPPL") < text.index("| Fix")


def test_other_test_images_do_not_compare(tmp_path):
    found = numbers(tmp_path / "a", configured(), {"knn": outcome(90.0)})
    found += numbers(
        tmp_path / "b", configured(method={"positives": 0}), {"knn": outcome(90.0, test="00" * 32)}
    )
    text = page(found)
    assert "**Not the same test images, so these rows do not compare:** 1,000 test images (sha256" in text
    withheld = {"knn": outcome(90.0) | {"test": {"kind": "withheld", "images": 5, "sha256": "11" * 32}}}
    assert "Not the same" not in page(numbers(tmp_path / "c", configured(), withheld))


def test_seeds_that_were_measured_in_other_ways_are_named(tmp_path):
    def measured(name, *protocols):
        return [
            number
            for seed, protocol in enumerate(protocols)
            for number in numbers(
                tmp_path / f"{name}{seed}", configured(seed=seed), {"knn": outcome(90.0, protocol=protocol)}
            )
        ]

    text = page(measured("a", "k-NN: k=10; old crops", "k-NN: k=9; new crops"))
    assert "**Not measured in one way, so their seeds do not compare (see below):** SemPPL, k-NN.\n" in text
    assert len(lines(text, "- k-NN (SemPPL): ")) == 2
    assert "Not measured in one way" not in page(measured("b", "k-NN: k=10, T=0.1", "k-NN: k=9, T=1")), (
        "numbers may have been chosen"
    )


def test_columns_whose_rows_were_measured_in_other_ways_are_named_with_their_rows(tmp_path):
    def tuned(value, protocol):
        return {"finetune": outcome(value, protocol=protocol), "knn": outcome(9.0, protocol="k-NN: k=1")}

    found = numbers(tmp_path / "a", configured(epochs=5.0), tuned(90.0, "fine-tuned: 7 steps, turned"))
    found += numbers(tmp_path / "b", configured(), tuned(91.0, "fine-tuned: 9 steps"))
    alone = {"supervised": outcome(50.0, protocol="on labels alone")}
    text = page(found + numbers(tmp_path / "c", configured(), alone))
    assert (
        "**Not measured in one way, so the rows of these columns do not compare (see below):** fine-tuned.\n"
    ) in text
    assert "- fine-tuned (SemPPL, 5 epochs): 7 steps, turned" in text
    assert text.endswith("- fine-tuned (SemPPL, 10 epochs): 9 steps")
    assert "Not measured" not in page(found[:2] + numbers(tmp_path / "d", configured(), alone)), (
        "labels alone are another thing"
    )


def test_seeds_of_labels_alone_may_be_measured_in_other_ways_too(tmp_path):
    found = []
    for seed, views in enumerate(("plain", "hard")):
        alone = {"supervised": outcome(50.0, protocol=f"on labels alone, {views} views")}
        found += numbers(tmp_path / str(seed), configured(seed=seed), alone)
    text = page(found)
    assert "so their seeds do not compare (see below):** supervised only, fine-tuned.\n" in text
    assert "these columns" not in text


def test_a_cell_that_is_mixed_does_not_hide_a_column_that_is(tmp_path):
    found = []
    for place, (positives, seed, way) in enumerate([(0, 0, "x"), (3, 0, "x"), (3, 1, "y")]):
        config = configured(seed=seed, method={"positives": positives})
        found += numbers(tmp_path / str(place), config, {"knn": outcome(90.0, protocol=way)})
    text = page(found)
    assert "so their seeds do not compare (see below):** SemPPL, k-NN.\n" in text
    assert "so the rows of these columns do not compare (see below):** k-NN.\n" in text


def test_words_that_differ_in_the_ending_of_what_is_counted_are_one_way(tmp_path):
    found = []
    for seed, said in enumerate(
        ("k-NN: 1 epochs; 1 seed(s)", "k-NN: 1 epoch; 1 seed", "k-NN: 1 epoch; 2 seeds")
    ):
        evaluations = {"knn": outcome(90.0, protocol=said)}
        found += numbers(tmp_path / str(seed), configured(seed=seed), evaluations)
    assert "Not measured in one way" not in page(found)
    assert lines(page(found), "- k-NN") == [
        "- k-NN (SemPPL): 1 epochs; 1 seed(s)",
        "- k-NN (SemPPL): 1 epoch; 2 seeds",
    ]


def test_gaps_are_dashes(tmp_path):
    content = outcome(90.0) | {"seconds": None}
    found = numbers(tmp_path / "a", configured(), {"finetune": content}, rows=[])
    (tmp_path / "a" / "environment.json").unlink()
    assert lines(page(found), "| SemPPL") == ["| SemPPL | 10 | 1 | 90.0 | – | – | H200 |"]


def test_names_that_anybody_may_have_chosen(tmp_path):
    assert cell("a|b<script>\x00") == "a\\|b&lt;script>\\x00"
    assert bullets([]) == ""
    assert bullets(["a", "b"]) == "- a\n- b"
    (section,) = sections(
        numbers(tmp_path / "a", configured(), {"knn": outcome(1.0), "linear": outcome(1.0)})
    )
    assert devices(section.rows[0]) == ["H200"]
