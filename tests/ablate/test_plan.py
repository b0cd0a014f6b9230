import json
from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import numpy as np
import pytest
import torch
from rich.console import Console
from tests.ablate.stubs import finish
from tests.conftest import damage, stripes, tiny_config

import semppl.ablate.plan as module
from semppl.ablate.copies import Copies
from semppl.ablate.plan import Shelf, cells_of, foreign_cells, plan_cells
from semppl.ablate.settings import AblateFlags
from semppl.config import DataConfig, to_yaml
from semppl.core.errors import UserError
from semppl.data.masks import write_mask
from semppl.data.scan import bad_table
from semppl.data.splits import digest, split_table
from semppl.train.prepare import load_for

CPU = torch.device("cpu")
NO_COPIES = Copies(None, Path("out"))


@pytest.fixture
def source(tmp_path):
    """All labels are given, so that some can be withheld."""
    truth = np.arange(48) % 3
    np.savez(tmp_path / "all.npz", x=stripes(truth), y=truth)
    return tmp_path / "all.npz"


@pytest.fixture
def shelf():
    return Shelf(CPU, Console(quiet=True))


@pytest.fixture
def make(source, shelf, tmp_path):
    def plan(table="parts", *, data=None, flags=None, **changes):
        config = tiny_config(source, data=data or DataConfig(labels_per_class=2), **changes)
        return plan_cells(config, table, flags or AblateFlags(), tmp_path / "out", shelf.get(config))

    return plan


def begin(cell, dataset, **environment):
    """A run directory as pre-training leaves it."""
    cell.run.prepare_(to_yaml(cell.config), overwrite=False)
    cell.run.split_sha256.write_text(f"{digest(split_table(dataset))}  split.csv\n")
    cell.run.environment.write_text(json.dumps(environment))


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("method.k=5", "k-5"),
        ("method.positives=0", "positives-0"),
        ("data.labels-per-class=1", "labels-1"),
        ("data.labels-per-class=3", "labels-3"),
        ("method.alpha=1,method.k=5", "alpha-1-k-5"),
        ("method.labels=given", "labels-given"),
    ],
)
def test_an_own_row_has_the_cell_that_a_table_of_the_paper_calls_so(make, words, name):
    plan = make("own", flags=AblateFlags(rows=(words,), seeds=2))
    assert plan.grid[words, 1].name == f"{name}-seed1"


def test_a_queue_and_a_length_of_the_papers_tables_are_shared_by_own_rows(make):
    queue = make("queue").table.rows[0].name
    epochs = make("epochs").table.rows[0].name
    capacity, length = queue.split()[0].replace(",", ""), make("epochs").grid[epochs, 0].config.epochs
    rows = (f"method.queue-capacity={capacity}", f"epochs={length!r}")
    plan = make("own", flags=AblateFlags(rows=rows))
    assert plan.grid[rows[0], 0].name == make("queue").grid[queue, 0].name
    assert plan.grid[rows[1], 0].name == make("epochs").grid[epochs, 0].name


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (("method.negatives=None",), "^--rows method.negatives=None changes nothing"),
        (("data.masks=None",), "^--rows data.masks=None changes nothing"),
        # the recipe has it
        (("views.min-area=0.2",), "^--rows views.min-area=0.2 changes nothing"),
        (
            ("method.k=2,method.alpha=1", "method.alpha=1,method.k=2"),
            "^--rows method.alpha=1,method.k=2 is the same as method.k=2,method.alpha=1",
        ),
        (("method.k=2", "method.k=02"), "^--rows method.k=02 is the same as method.k=2"),
        (("method.minimum-votes=5",), "^--rows method.minimum-votes=5: "),
        (("method.stop-gradient=teacher",), "^--rows method.stop-gradient=teacher: "),
        (("views.min-area=2",), "^--rows views.min-area=2: .* areas from 2.0 to 1.0 cannot be cut"),
        (("views.flip=1.5",), "^--rows views.flip=1.5: flip is a probability"),
    ],
)
def test_rows_that_cannot_be_are_refused_before_anything_is_trained(make, rows, said):
    with pytest.raises(UserError, match=said):
        make("own", flags=AblateFlags(rows=rows))


def test_two_cells_of_one_name_are_refused(make):
    plan, other = make(), make(**{"epochs": 3.0})
    with pytest.raises(UserError, match=r"^two different cells would be default-seed0"):
        cells_of([plan, other])


def test_cells_come_seed_by_seed_and_each_once(make):
    plan = make(flags=AblateFlags(seeds=2), seed=3)
    assert [cell.name for cell in plan.cells] == [
        "default-seed3",
        "labels-given-seed3",
        "positives-0-seed3",
        "default-seed4",
        "labels-given-seed4",
        "positives-0-seed4",
    ]
    assert {cell.path.parent.name for cell in plan.cells} == {"out"}
    alpha = make("alpha", method=replace(tiny_config("x").method, alpha=0.2))
    assert [cell.name for cell in alpha.cells] == ["positives-0-seed0", "default-seed0", "alpha-1-seed0"]


def test_cells_that_tables_share_come_once_and_all_tables_of_a_seed_before_the_next_seed(make):
    two = AblateFlags(seeds=2)
    shared = make("parts", flags=two), make("positives", flags=two)
    slugs = ["default", "labels-given", *(f"positives-{count}" for count in (0, 1, 3, 5, 10))]
    assert [cell.name for cell in cells_of(shared)] == [
        f"{slug}-seed{seed}" for seed in (0, 1) for slug in slugs
    ]


def test_what_the_data_decides_is_decided_once_for_all_rows(make):
    lengths = [cell.config for cell in make("epochs", epochs=6000.0).cells]
    assert len({config.epochs for config in lengths}) == 4
    # 18,000 steps: the longest row alone would have taken other values by itself
    assert len({replace(config, epochs=1.0) for config in lengths}) == 1


def test_each_seed_keeps_labels_of_its_own_unless_their_choice_is_given(make):
    two = AblateFlags(seeds=2)
    assert [cell.config.split_seed for cell in make(flags=two).cells][::3] == [0, 1]
    fixed = DataConfig(labels_per_class=2, split_seed=7)
    assert {cell.config.split_seed for cell in make(data=fixed, flags=two).cells} == {7}


def test_the_oracle_needs_truth(make):
    with pytest.raises(UserError, match="oracle labels need --labels-per-class"):
        make("oracle", data=DataConfig(validation=0.2))


def test_a_cell_of_this_configuration_is_taken_as_it_is(make, shelf):
    plan = make()
    dataset = shelf.get(plan.base)
    begin(plan.cells[0], dataset, data_sha256=dataset.fingerprint)
    assert foreign_cells([plan], shelf, NO_COPIES, overwrite=False) == []


@pytest.mark.parametrize("damaged_before", [True, False])
def test_a_cell_is_compared_without_the_files_that_it_left_out(
    class_folders, shelf, tmp_path, damaged_before
):
    """A file that went bad after a cell began is a part of it."""
    config = tiny_config(class_folders, data=DataConfig(labels_per_class=2, workers=0))
    file = class_folders / "cat" / "003.png"
    if damaged_before:
        damage(file)
    dataset = load_for(config, CPU)
    plan = plan_cells(config, "parts", AblateFlags(), tmp_path / "out", dataset)
    begin(plan.cells[0], dataset, data_sha256=dataset.fingerprint)
    plan.cells[0].run.bad_files.write_text(bad_table(dataset.bad))
    assert len(dataset.bad) == damaged_before
    if not damaged_before:
        damage(file)
    for _ in range(2):  # also where the data is there already as another cell has it
        assert foreign_cells([plan], shelf, NO_COPIES, overwrite=False) == []
        assert len(shelf.get(config).names) == 35, "a new cell leaves it out"


@pytest.mark.parametrize("finished", [True, False])
def test_a_cell_of_another_configuration_is_refused_before_anything_is_trained(make, shelf, finished):
    plan = make()
    begin(plan.cells[2], shelf.get(plan.base))
    if finished:
        plan.cells[2].run.evaluations.mkdir()
    longer = make(epochs=3.0)
    with pytest.raises(
        UserError, match=r"positives-0-seed0 was started with other values of --epochs.*--out"
    ):
        foreign_cells([longer], shelf, NO_COPIES, overwrite=False)
    assert foreign_cells([longer], shelf, NO_COPIES, overwrite=True) == [longer.cells[2]]


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_copy_of_another_run_is_refused_whatever_may_be_overwritten(make, shelf, tmp_path, overwrite):
    plan = make()
    cell, dataset = plan.cells[0], shelf.get(plan.base)
    begin(cell, dataset, data_sha256="other")
    finish(cell)
    copies = Copies(tmp_path / "kept", tmp_path / "out")
    copies.keep_([cell])
    rmtree(cell.path)
    with pytest.raises(UserError, match=r"kept.*was trained on other images \(it is a copy: move it away"):
        foreign_cells([plan], shelf, copies, overwrite=overwrite)
    copy = tmp_path / "kept" / cell.name
    (copy / "environment.json").write_text("{}")
    assert foreign_cells([plan], shelf, copies, overwrite=overwrite) == []
    with pytest.raises(
        UserError, match=r"was started with other values of --epochs.* \(it is a copy: move it"
    ):
        foreign_cells([make(epochs=3.0)], shelf, copies, overwrite=overwrite)
    (copy / "evaluations" / "knn.json").unlink()
    with pytest.raises(
        UserError, match=r"default-seed0 is a copy without the results of a cell: move it away"
    ):
        foreign_cells([plan], shelf, copies, overwrite=overwrite)


def keep(cell, dataset, tmp_path):
    """A copy of a finished cell, which is gone itself."""
    begin(cell, dataset)
    finish(cell)
    copies = Copies(tmp_path / "kept", tmp_path / "out")
    copies.keep_([cell])
    rmtree(cell.path)
    return copies


def test_a_cell_with_a_copy_needs_no_place(make, shelf, tmp_path):
    plan = make()
    copies = keep(plan.cells[0], shelf.get(plan.base), tmp_path)
    begin(make(epochs=3.0).cells[0], shelf.get(plan.base))
    assert foreign_cells([plan], shelf, copies, overwrite=False) == []
    rmtree(plan.cells[0].path)
    plan.cells[0].path.mkdir()
    (plan.cells[0].path / "thesis.tex").touch()
    assert foreign_cells([plan], shelf, copies, overwrite=False) == []


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("split.sha256", "", r"is a damaged copy \(IndexError\)"),
        ("metrics.jsonl", b"\xff", r"is a damaged copy \(UnicodeDecodeError\)"),
        ("metrics.jsonl", '{"step": 6, "pseudo/right_by_votes": [1]}\n', r"is a damaged copy \(KeyError\)"),
        ("metrics.jsonl", None, "is a copy without the results of a cell"),
        ("evaluations/linear.json", "{}", "is a copy without the results of a cell"),
        ("config.yaml", "{", r"config\.yaml is no valid YAML .*\(it is a copy"),
    ],
)
def test_a_damaged_copy_is_named(make, shelf, tmp_path, file, content, words):
    plan = make(flags=AblateFlags(seeds=2))
    copies = keep(plan.cells[-1], shelf.get(plan.cells[-1].config), tmp_path)
    place = tmp_path / "kept" / plan.cells[-1].name / file
    if content is None:
        place.unlink()
    else:
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(
        UserError, match=rf"positives-0-seed1.* ?{words}.*move it away, or choose another --keep"
    ):
        foreign_cells([plan], shelf, copies, overwrite=False)


def test_another_split_or_other_images_are_refused_too(make, shelf):
    plan = make()
    cell, dataset = plan.cells[0], shelf.get(plan.base)
    begin(cell, dataset, data_sha256="other")
    with pytest.raises(UserError, match="was trained on other images"):
        foreign_cells([plan], shelf, NO_COPIES, overwrite=False)
    cell.run.environment.write_text("{")
    assert foreign_cells([plan], shelf, NO_COPIES, overwrite=False) == []
    cell.run.split_sha256.write_text("other  split.csv\n")
    with pytest.raises(UserError, match="another split"):
        foreign_cells([plan], shelf, NO_COPIES, overwrite=False)


def test_other_masks_are_refused_too(make, shelf, source):
    write_mask(source.with_name("all.npz.masks") / "000000.png", np.ones((8, 8), bool))
    plan = make()
    cell, dataset = plan.cells[0], shelf.get(plan.base)
    begin(cell, dataset, masks_sha256=dataset.masks_fingerprint)
    assert foreign_cells([plan], shelf, NO_COPIES, overwrite=False) == []
    for known in ("other", None):
        cell.run.environment.write_text(json.dumps({"masks_sha256": known}))
        with pytest.raises(UserError, match=r"trained with other masks than those in .*all\.npz\.masks"):
            foreign_cells([plan], shelf, NO_COPIES, overwrite=False)
    cell.run.environment.write_text("{}")  # of an older version
    assert foreign_cells([plan], shelf, NO_COPIES, overwrite=False) == []


def test_somebodys_own_folder_is_not_a_cell(make, shelf):
    plan = make()
    plan.cells[0].path.mkdir(parents=True)
    (plan.cells[0].path / "thesis.tex").touch()
    with pytest.raises(UserError, match="is not empty"):
        foreign_cells([plan], shelf, NO_COPIES, overwrite=True)


def test_what_the_labels_of_a_row_lack_is_known_before_anything_is_trained(make, shelf):
    plan = make("labels", flags=AblateFlags(per_class=(2, 400)))
    with pytest.raises(UserError, match="400"):
        foreign_cells([plan], shelf, NO_COPIES, overwrite=False)


def test_without_anything_to_measure_on_nothing_begins(make, shelf):
    with pytest.raises(
        UserError, match=r"nothing to measure on: .* or set some aside with --validation 0\.2$"
    ):
        foreign_cells([make(data=DataConfig())], shelf, NO_COPIES, overwrite=False)


def test_the_same_data_is_read_once(make, shelf, monkeypatch):
    plan = make(flags=AblateFlags(seeds=2))
    read = []
    monkeypatch.setattr(module, "load_for", lambda config, *_, **__: read.append(config.split_seed))
    fresh = Shelf(CPU, Console(quiet=True))
    for cell in plan.cells:
        fresh.get(cell.config)
    assert read == [0, 1]


def test_data_with_masks_is_not_that_without(shelf, source, monkeypatch):
    monkeypatch.setattr(module, "load_for", lambda config, *_, **__: config.saliency.probability)
    config = tiny_config(source)
    off = replace(config, saliency=replace(config.saliency, probability=0.0))
    assert [shelf.get(each) for each in (off, config)] == [0.0, 0.1]
