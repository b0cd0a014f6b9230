import csv
import io
import json
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from tests.conftest import damage, tiny_config

from semppl.config import DataConfig
from semppl.core.rundir import RunDirectory
from semppl.data.images import ImageFiles
from semppl.data.paths import Paths
from semppl.deploy.model import Decides, load_model, save_model
from semppl.deploy.predict import predict, prediction_table
from semppl.evaluate.consistency import make_plan
from semppl.evaluate.finetune import DEFAULT_SWEEP
from semppl.fit import outcome
from semppl.fit.consistency import Course
from semppl.fit.outcome import export, final_model, predict_rest, show_advice, suggest, suspect
from semppl.fit.tuning import Tuned, Tuning
from semppl.protocols.desk import Desk
from semppl.protocols.self_training import without_label
from semppl.protocols.teaching import collect
from semppl.train.build import build_state
from semppl.train.prepare import load_for, resolved_for
from semppl.views.whole import whole_crop


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run").mkdir()
    return RunDirectory(tmp_path / "run")


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def course_of(desk):
    index = without_label(desk, desk.given_M)
    return Course(make_plan(len(index), 3), collect(desk, index, desk.given_M), index)


TUNED = Tuned(Tuning(DEFAULT_SWEEP[0], 2), model=None, promised=None)


@pytest.mark.parametrize("decides", get_args(Decides))
def test_the_model_knows_all_given_labels_and_survives_its_export(desk, online, run, decides):
    model = final_model(desk, online, decides, TUNED, course_of(desk))
    assert len(model.bank.labels_L) == len(model.bank_names) == 15
    assert model.decides == decides
    assert export(model, run.model, desk) == 0


@pytest.mark.parametrize("decides", get_args(Decides))
def test_a_scale_changes_how_sure_a_model_is_and_no_answer(desk, online, decides):
    plain, scaled = (
        final_model(desk, online, decides, TUNED, course_of(desk), scale) for scale in (1.0, 0.25)
    )
    images = desk.dataset.images[:9]
    with torch.no_grad():
        features = plain.network.features(torch.rand(9, 3, 8, 8))
        assert torch.allclose(
            scaled.network.logits(features), 0.25 * plain.network.logits(features), atol=1e-6
        )
    before, after = (predict(model, images, workers=0) for model in (plain, scaled))
    assert torch.equal(before.labels_N, after.labels_N)
    assert (after.probability_N <= before.probability_N + 1e-6).all()


def test_the_linear_model_has_the_penalty_that_was_calibrated(desk, online):
    model = final_model(desk, online, "linear", None, None, 2.0, 0.001)
    index = (desk.given_M >= 0).nonzero().squeeze(1)
    features = desk.features(online.encoder, desk.dataset.images[index])
    fit = desk.linear(features, desk.given_M[index], strength=0.001)
    assert torch.allclose(model.network.head.weight.double(), 2 * fit.weight_YF, rtol=1e-5)
    assert desk.linear(features, desk.given_M[index]).strength != 0.001, "not what would be chosen"


def test_a_model_of_all_images_is_the_teacher_and_answers_by_its_classifier(desk, online, run):
    course = course_of(desk)
    model = final_model(desk, online, "fine-tuned on all images", None, course)
    teacher = course.run(desk, online.encoder, desk.given_M, "again")
    images = desk.dataset.images[course.index_N]
    probability, label = desk.logits(teacher, images).softmax(1).max(1)
    save_model(model, run.model)
    said = predict(load_model(run.model), images, workers=0)
    assert torch.equal(said.labels_N, label)
    torch.testing.assert_close(said.probability_N, probability)
    frozen = predict(final_model(desk, online, "linear", None), images, workers=0)
    assert not torch.allclose(said.probability_N, frozen.probability_N)


def test_every_image_without_a_given_label_gets_one(desk, online, run):
    index, said = predict_rest(desk, final_model(desk, online, "linear", None), run)
    table = rows(run.path / "predictions.csv")
    given = {desk.dataset.names[i] for i in (desk.given_M >= 0).nonzero().squeeze(1).tolist()}
    assert len(table) == len(index) == 21
    assert not given & {row["path"] for row in table}
    assert {row["nearest_1"] for row in table} <= given
    assert {row["label"] for row in table} <= set(desk.dataset.classes)
    assert len(said.labels_N) == 21


def test_an_image_that_cannot_be_read_any_more_gets_no_label_and_is_not_advised(
    make_desk, online, run, class_folders
):
    desk = make_desk(feed="streaming")
    lost = next(i for i in range(36) if desk.given_M[i] < 0)
    damage(class_folders / desk.dataset.names[lost])
    model = final_model(desk, online, "linear", None)
    index, said = predict_rest(desk, model, run)
    names = {row["path"] for row in rows(run.path / "predictions.csv")}
    assert len(names) == len(index) == len(said.labels_N) == 20
    assert desk.dataset.names[lost] not in names
    assert lost not in index
    assert lost not in suggest(desk, model, index, said, run)


def test_an_image_that_is_grey_in_memory_gets_no_label_either(make_desk, online, run):
    desk = make_desk()
    lost = next(i for i in range(36) if desk.given_M[i] < 0)
    grey = replace(desk, dataset=replace(desk.dataset, unreadable={desk.dataset.names[lost]: "its problem"}))
    index, _ = predict_rest(grey, final_model(desk, online, "linear", None), run)
    assert isinstance(desk.dataset.images, torch.Tensor)
    assert len(index) == len(rows(run.path / "predictions.csv")) == 20
    assert lost not in index


def test_with_all_labels_given_there_is_nothing_to_predict(make_desk, online, run):
    desk = make_desk(labels_per_class=None, label_fraction=1.0)
    assert predict_rest(desk, final_model(desk, online, "linear", None), run) is None
    assert not (run.path / "predictions.csv").exists()


def test_images_to_label_next_are_unlabelled_ones(desk, online, run):
    model = final_model(desk, online, "linear", None)
    index, said = predict_rest(desk, model, run)
    places = suggest(desk, model, index, said, run)
    table = rows(run.path / "label_next.csv")
    assert [desk.dataset.names[place] for place in places] == [row["path"] for row in table]
    free = {desk.dataset.names[i] for i in index.tolist()}
    assert len({row["path"] for row in table} & free) == 20
    assert all(row["reason"].startswith(("stands for ", "like ")) for row in table)
    assert (run.path / "label_next.png").stat().st_size > 500


def test_a_planted_wrong_label_is_suspected(make_desk, run, monkeypatch):
    desk = make_desk(labels_per_class=None, label_fraction=1.0)

    class Rows(torch.nn.Module):
        """Which stripe is bright is the class itself."""

        def forward(self, images):
            return images.mean((1, 3)) * 10

    class Seen:
        encoder = Rows()

    desk.given_M[0] = 2
    assert suspect(desk, Seen(), run) == ([0], pytest.approx(35 / 36))
    (row,) = rows(run.path / "suspicious_labels.csv")
    assert (row["path"], row["label"], row["voted"]) == ("cat/000.png", "owl", "cat")
    assert (run.path / "suspicious_labels.png").exists()


def test_advice_has_a_thumbnail_for_each_image_once(desk, run, monkeypatch):
    def shown(*places):
        show_advice(desk, places, run)
        content = json.loads((run.path / "exhibit" / "advice.json").read_text())
        assert content["version"] == 1
        assert {file.name for file in (run.path / "exhibit").iterdir()} == {
            "advice.json",
            *content["tiles"]["sheets"],
        }
        return content

    names = desk.dataset.names
    content = shown(20, 3, 20, 7)
    assert content["name"] == [names[20], names[3], names[7]]
    assert content["tiles"] == {"side": 64, "columns": 32, "per_sheet": 1024, "sheets": ["advice-0.webp"]}
    (sheet,) = (run.path / "exhibit" / name for name in content["tiles"]["sheets"])
    tile = whole_crop(64, desk.dataset.images[3]).permute(1, 2, 0).float()
    with Image.open(sheet) as picture:
        seen = torch.from_numpy(np.asarray(picture)[:64, 64:128].copy()).float()
    assert (tile - seen).abs().mean() < 8
    monkeypatch.setattr(outcome, "PER_SHEET", 2)
    assert shown(1, 2, 3)["name"] == [names[1], names[2]], "at most a sheet"
    assert shown()["tiles"]["sheets"] == [], "no advice, no sheet"


def test_predict_sees_the_same_pixels_as_fit(tmp_path, run):
    """Equal images of a shape that is neither square nor small: kept in memory by fit, read by predict."""
    rng = np.random.default_rng(0)
    for i in range(24):
        folder = tmp_path / "set" / ("ab"[i % 2])
        folder.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (100, 140, 3), dtype=np.uint8) // (1 + i % 2)
        Image.fromarray(pixels).save(folder / f"{i}.png")
    config = tiny_config(tmp_path / "set", data=DataConfig(labels_per_class=4, workers=0), batch_size=8)
    config = replace(config, views=replace(config.views, large_size=96))
    dataset = load_for(config, torch.device("cpu"))
    assert isinstance(dataset.images, torch.Tensor)
    desk = Desk(resolved_for(config, dataset), dataset, torch.device("cpu"), Console(quiet=True))
    model = final_model(desk, build_state(desk.config, 2, desk.device).online, "linear", None)
    predict_rest(desk, model, run)
    mine = {row["path"]: row for row in rows(run.path / "predictions.csv")}
    files = ImageFiles(tmp_path / "set", Paths(mine))
    theirs = prediction_table(files.paths, predict(model, files, workers=0), model)
    for row in csv.DictReader(io.StringIO(theirs)):
        assert float(row["probability"]) == pytest.approx(float(mine[row["path"]]["probability"]), abs=2e-3)
        assert row["label"] == mine[row["path"]]["label"]
