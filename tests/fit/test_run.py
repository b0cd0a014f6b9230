import csv
import io
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from PIL import Image
from rich.console import Console
from tests.conftest import tiny_config

from semppl.config import DataConfig, from_yaml
from semppl.core.errors import RunError, UserError
from semppl.core.rundir import RunDirectory
from semppl.evaluate.bank import ShareTrust
from semppl.fit import consistency, measure, supervised, tuning, verdict
from semppl.fit import run as stages
from semppl.fit.run import as_measured, pretraining_seconds, protocol, run_fit, trust_rows
from semppl.fit.settings import FitSettings


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    for module in (supervised, tuning):
        monkeypatch.setattr(module, "_FEWEST", 2)
        monkeypatch.setattr(module, "_MOST", 2)


def go(config, out, **options):
    words = io.StringIO()
    run_fit(config, RunDirectory(out), FitSettings(), console=Console(file=words, width=200), **options)
    return words.getvalue()


def test_from_a_messy_folder_and_a_table_to_a_result(class_folders, tmp_path):
    """Everything that a folder may hold, streamed; then it goes on, and is not overwritten."""
    Image.new("CMYK", (20, 9), (10, 200, 30, 0)).save(class_folders / "cmyk.jpg")
    Image.new("I;16", (7, 7), 40_000).save(class_folders / "deep 16 bit.png")
    Image.new("P", (9, 5), 3).save(class_folders / "palette.gif")
    Image.new("RGB", (1, 1)).save(class_folders / "one pixel.png")
    Image.new("RGBA", (30, 40), (1, 2, 3, 0)).save(class_folders / "图[片].webp")
    (class_folders / "text.jpg").write_text("not an image")
    (class_folders / "gone.png").symlink_to(class_folders / "nowhere.png")
    labels = [("cat", i) for i in range(4)] + [("dog", i) for i in range(4)] + [("owl", 0)]
    table = tmp_path / "labels.csv"
    table.write_text("path,label\n" + "".join(f"{name}/{i:03d}.png,{name}\n" for name, i in labels))
    data = DataConfig(labels=str(table), workers=0, allow_unreadable=True)
    config = tiny_config(class_folders, data=data, epochs=1.0, batch_size=8)
    out = tmp_path / "a run"
    text = go(config, out)
    assert f"semppl predict '{out}' FOLDER" in text, "as a shell wants it"
    assert "pets: 41 images, 7 labelled in 3 classes, 2 more labels held out" in text
    assert "2 unreadable: see bad_files.csv" in text
    assert "too few labels to set one aside for validation: owl" in text
    for words in ("frozen at its start", "supervised only", "fine-tuned", "on 2 labels held out"):
        assert words in text
    assert [row["path"] for row in table_of(out / "bad_files.csv")] == ["gone.png", "text.jpg"]
    predicted = {row["path"] for row in table_of(out / "predictions.csv")}
    roles = {row["path"]: row["role"] for row in table_of(out / "split.csv")}
    assert predicted == {path for path, role in roles.items() if role == "unlabelled"}
    assert len(predicted) == 32
    assert sorted(roles.values()).count("validation") == 2
    result = json.loads((out / "evaluations" / "fit.json").read_text())
    assert len(result["rows"]) == 6
    assert result["finetuning"].keys() == {"rates", "steps"}
    assert result["model_has_seen_validation_labels"] is True
    assert "fine-tuned on all images: left out, too little time" in text
    assert result["consistency"] is None
    assert result["verdict"] in text
    assert result["classes"] == ["cat", "dog", "owl"]
    assert sum(map(sum, result["confusion"])) == result["exam"]["images"] == 2
    told = json.loads((out / "exhibit" / "advice.json").read_text())["name"]
    advised = {
        row["path"] for name in ("label_next", "suspicious_labels") for row in table_of(out / f"{name}.csv")
    }
    assert set(told) == advised
    assert json.loads((out / "exhibit" / "exhibit.json").read_text())["step"] == 5
    assert result["split_sha256"] == (out / "split.sha256").read_text().split()[0]
    assert (out / "model" / "model.safetensors").is_file()

    with pytest.raises(UserError, match="is not empty: go on with --resume"):
        go(config, out)
    again = go(resumed(out), out, resume=True)
    assert "going on from step 5 of 5" in again
    assert (
        result["rows"][0]["accuracy"]
        == json.loads((out / "evaluations" / "fit.json").read_text())["rows"][0]["accuracy"]
    )


@pytest.mark.parametrize(("steps", "trainings"), [(3, 1), (6, 2)])
def test_the_model_of_all_images_goes_all_the_way(class_folders, tmp_path, monkeypatch, steps, trainings):
    monkeypatch.setattr(consistency, "affordable", lambda *_: steps)
    monkeypatch.setattr(consistency, "_FEWEST", 3)
    monkeypatch.setattr(consistency, "_FEWEST_ALONE", 3)
    monkeypatch.setattr(consistency, "_LEAST_EPOCHS", 1)
    teach, taught = consistency.teach, []

    def teach_and_tell(*given, title, **flags):
        taught.extend([title] if title else [])  # without one its speed is measured
        return teach(*given, title=title, **flags)

    monkeypatch.setattr(consistency, "teach", teach_and_tell)
    for module in (measure, verdict):
        monkeypatch.setattr(module, "chosen", lambda rows: rows[3])
    scales, final = [], stages.final_model
    monkeypatch.setattr(stages, "final_model", lambda *given: scales.append(given[-2:]) or final(*given))
    data = DataConfig(labels_per_class=4, workers=0)
    out = tmp_path / "run"
    text = go(tiny_config(class_folders, data=data, epochs=4.0, batch_size=16), out)
    assert "3 steps from the linear way on" in text
    result = json.loads((out / "evaluations" / "fit.json").read_text())
    assert [row["way"] for row in result["rows"]][2:4] == ["fine-tuned", "fine-tuned on all images"]
    assert result["model_decides_by"] == "fine-tuned on all images"
    assert result["calibration"]["labels"] == 3
    assert scales == [(result["calibration"]["scale"], None)], "what was measured is applied"
    assert f"logits × {result['calibration']['scale']:.3g}, chosen on 3 labels as answered" in text
    assert (result["consistency"]["steps"], result["consistency"]["unlabelled_images"]) == (3, 24)
    both = ["fine-tuning on all images", "fine-tuning on all images and labels"]
    assert taught == both[:trainings]
    assert result["consistency"]["trained_once"] == (trainings == 1)
    assert result["model_has_seen_validation_labels"] == (trainings == 2)
    assert json.loads((out / "model" / "config.json").read_text())["decides"] == "fine-tuned on all images"
    assert len(table_of(out / "predictions.csv")) == 24
    assert "SemPPL, fine-tuned on all images" in (out / "report.html").read_text()


def test_a_model_that_ran_away_on_all_labels_is_not_taken_and_that_is_written(
    class_folders, tmp_path, monkeypatch
):
    for module in (measure, verdict):
        monkeypatch.setattr(module, "chosen", lambda rows: rows[2])
    monkeypatch.setattr(tuning, "ran_away", lambda own, promised: True)
    data = DataConfig(labels_per_class=4, workers=0)
    out = tmp_path / "run"
    text = go(tiny_config(class_folders, data=data, epochs=1.0, batch_size=16), out)
    assert "fine-tuning on all labels ran away" in text
    result = json.loads((out / "evaluations" / "fit.json").read_text())
    assert (result["model_decides_by"], result["model_has_seen_validation_labels"]) == ("fine-tuned", False)


def table_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def resumed(out):
    return from_yaml(RunDirectory(out).config.read_text())


@pytest.mark.parametrize(("epochs", "until"), [(None, 1540.0), (2.0, None)])
def test_training_ends_a_tenth_before_the_minutes_do_unless_epochs_are_given(
    class_folders, tmp_path, monkeypatch, epochs, until
):
    seen = []
    monkeypatch.setattr(stages, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    monkeypatch.setattr(stages, "planned", lambda config, *_: (replace(config, epochs=1.0), []))
    monkeypatch.setattr(stages, "pretrain", lambda *_, **__: None)
    monkeypatch.setattr(stages, "_after", lambda *given: seen.append(given[-1]))
    config = tiny_config(class_folders, data=DataConfig(labels_per_class=4, workers=0), epochs=epochs)
    console = Console(file=io.StringIO())
    run_fit(config, RunDirectory(tmp_path / "run"), FitSettings(minutes=10), console=console)
    assert seen == [until]


def test_what_fails_after_pre_training_says_how_to_go_on_and_a_page_less_is_no_failure(
    class_folders, tmp_path, monkeypatch
):
    config = tiny_config(class_folders, data=DataConfig(labels_per_class=4, workers=0), epochs=1.0)
    out = tmp_path / "run"
    with monkeypatch.context() as patch:

        def full(*_):
            raise OSError(28, "No space left on device", "model.safetensors")

        patch.setattr(stages, "export", full)
        with pytest.raises(RunError) as caught:
            go(config, out)
    assert str(caught.value) == (
        "failed after pre-training, which is kept (No space left on device, model.safetensors): "
        f"go on with `semppl fit --resume --out {out}`"
    )
    monkeypatch.setattr(stages, "write_report", lambda run: None)
    text = go(resumed(out), out, resume=True)
    assert f"no page to look at could be written: `semppl report {out}` says why" in text
    assert (out / "predictions.csv").is_file()


def test_another_table_is_refused_on_resuming(class_folders, tmp_path):
    table = tmp_path / "labels.csv"
    rows = [f"{name}/{i:03d}.png,{name}" for name in ("cat", "dog") for i in range(3)]
    table.write_text("\n".join(["path,label", *rows]))
    config = tiny_config(
        class_folders, data=DataConfig(labels=str(table), workers=0), epochs=1.0, batch_size=8
    )
    go(config, tmp_path / "run")
    table.write_text("\n".join(["path,label", *rows[1:]]))
    with pytest.raises(UserError, match="another split"):
        go(resumed(tmp_path / "run"), tmp_path / "run", resume=True)


def test_seconds_of_pre_training_come_from_its_metrics(tmp_path):
    run = RunDirectory(tmp_path)
    config = tiny_config("digits", batch_size=10)
    assert pretraining_seconds(run, config) == 0
    for step, rate in ((10, 50.0), (20, 100.0), (30, 100.0)):
        run.append_metrics({"step": step, "images_per_second": rate})
    assert pretraining_seconds(run, config) == pytest.approx(2 + 1 + 1), "each line by its own speed"


def test_a_threshold_that_no_label_reaches_has_no_precision():
    lines = trust_rows([ShareTrust(0.5, 0.75, 0.5, 4), ShareTrust(1.0, float("nan"), 0.0, 0)])
    assert lines == [("0.50", "75.0", "50.0", "4"), ("1.00", "–", "0.0", "0")]


@pytest.mark.parametrize(("held_out", "rates"), [(3, "chosen on the validation labels"), (0, "not chosen")])
def test_the_protocol_says_whether_rates_were_chosen(held_out, rates):
    dataset = SimpleNamespace(labelled_L=range(4), validation_V=range(held_out))
    exam = SimpleNamespace(kind="test", describe=lambda: "9 test images")
    found = SimpleNamespace(exam=exam, tuned=object(), course=None, calibration=None)
    said = protocol(SimpleNamespace(dataset=dataset), found)
    assert f"4 labels for training, {held_out} for validation" in said
    assert said.endswith(f"fine-tuned from the projector's first layer, rates {rates}")


def test_a_model_that_was_measured_has_not_seen_the_validation_labels():
    tuned, taught, other = (SimpleNamespace(encoder=object()) for _ in range(3))
    found = SimpleNamespace(tuned=SimpleNamespace(model=tuned), course=SimpleNamespace(kept=taught))
    assert as_measured(found, SimpleNamespace(network=tuned))
    assert as_measured(found, SimpleNamespace(network=taught))
    assert not as_measured(found, SimpleNamespace(network=other))
    found = SimpleNamespace(tuned=None, course=SimpleNamespace(kept=None))
    assert not as_measured(found, SimpleNamespace(network=other))
    assert not as_measured(SimpleNamespace(tuned=None, course=None), SimpleNamespace(network=other))


def test_one_class_is_not_enough(tmp_path, class_folders):
    with pytest.raises(UserError, match="class"):
        go(tiny_config(class_folders / "cat", data=DataConfig(label_fraction=1.0)), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert torch.is_grad_enabled()
