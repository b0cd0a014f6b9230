import csv
import errno
import io
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from tests.conftest import damage, save_stripes
from tests.deploy.conftest import build
from tests.deploy.test_model import make

from semppl.core.errors import RunError, UserError
from semppl.deploy.model import save_model, save_network
from semppl.deploy.predict import predict, predict_folder, prediction_table, share_of
from semppl.evaluate.bank import Answer
from semppl.evaluate.features import extract_features


@pytest.fixture
def pixels():
    return torch.randint(256, (10, 3, 8, 8), dtype=torch.uint8)


def test_labels_are_those_of_the_classifier_and_votes_those_of_the_bank(pixels):
    model = make()
    said = predict(model, pixels)
    network = model.network
    features = extract_features(network.encoder, pixels, size=8, mean_3=network.mean_3, std_3=network.std_3)
    with torch.no_grad():
        probability = network.logits(features).softmax(1)
    assert torch.equal(said.labels_N, probability.argmax(1))
    assert torch.allclose(said.probability_N, probability.max(1).values)
    assert torch.equal(said.answer.near_NK, model.bank.ask(features).near_NK)
    assert torch.equal(said.sample_S, torch.arange(10))
    assert torch.allclose(said.features_SF, features)


def test_votes_decide_where_they_are_told_to(pixels):
    said = predict(make("k-NN"), pixels)
    assert torch.equal(said.labels_N, said.answer.labels_N)
    assert torch.equal(said.probability_N, said.answer.share_N)
    assert torch.allclose(said.share_N, said.answer.share_N)


def test_the_share_of_a_label_by_hand():
    answer = Answer(
        torch.tensor([0]), torch.tensor([0.0]), torch.tensor([[2, 0]]), torch.tensor([[1.0, 0.9]])
    )
    labels = torch.tensor([1, 0, 0])
    e = 2.718281828
    assert share_of(torch.tensor([0]), answer, labels).item() == pytest.approx(e / (e + 1))
    assert share_of(torch.tensor([1]), answer, labels).item() == pytest.approx(1 / (e + 1))
    assert share_of(torch.tensor([2]), answer, labels).item() == 0


def test_few_features_are_kept(pixels, monkeypatch):
    monkeypatch.setattr("semppl.deploy.predict._KEPT", 3)
    said = predict(make(), pixels)
    assert said.sample_S.tolist() == [0, 4, 9]
    assert torch.allclose(said.features_SF, predict(make(), pixels[[0, 4, 9]]).features_SF, atol=1e-5)


def test_answers_for_some_of_the_images(pixels, monkeypatch):
    monkeypatch.setattr("semppl.deploy.predict._KEPT", 4)
    said = predict(make(), pixels)
    assert said.sample_S.tolist() == [0, 3, 6, 9]
    some = said.of(torch.tensor([1, 3, 4, 9]))
    assert torch.equal(some.labels_N, said.labels_N[[1, 3, 4, 9]])
    assert torch.equal(some.answer.near_NK, said.answer.near_NK[[1, 3, 4, 9]])
    assert some.sample_S.tolist() == [1, 3]
    assert torch.equal(some.features_SF, said.features_SF[[1, 3]])


def test_the_table_names_the_neighbours(pixels):
    model = replace(make(), bank_names=["a,b", *"cdefg"])
    said = predict(model, pixels)
    rows = list(csv.DictReader(io.StringIO(prediction_table([f"{i}.png" for i in range(10)], said, model))))
    assert len(rows) == 10
    assert rows[4]["path"] == "4.png"
    assert rows[4]["label"] == model.classes[said.labels_N[4]]
    assert rows[4]["nearest_1"] == model.bank_names[said.answer.near_NK[4, 0]]
    assert float(rows[4]["probability"]) == pytest.approx(said.probability_N[4].item(), abs=1e-4)


def test_a_folder_or_a_file_with_the_model_alone(tmp_path):
    save_model(make(), tmp_path / "model")
    save_stripes(tmp_path / "new" / "deep", [0, 1, 2])
    (tmp_path / "new" / "bad.png").write_text("no image")
    words = io.StringIO()

    def ask(images, out=None, overwrite=False):
        return predict_folder(
            tmp_path / "model",
            images,
            out,
            device="cpu",
            workers=0,
            overwrite=overwrite,
            console=Console(file=words, width=200),
        )

    table = ask(tmp_path / "new")
    assert [row.split(",")[0] for row in table.splitlines()[1:]] == [f"deep/00{i}.png" for i in range(3)]
    assert "left out: bad.png" in words.getvalue()
    assert ask(tmp_path / "new", tmp_path / "out.csv") is None
    assert (tmp_path / "out.csv").read_text(errors="surrogateescape") == table
    with pytest.raises(UserError, match=r"out.csv is there already"):
        ask(tmp_path / "new", tmp_path / "out.csv")
    ask(tmp_path / "new", tmp_path / "out.csv", overwrite=True)
    one = ask(tmp_path / "new" / "deep" / "001.png").splitlines()
    assert one[1].split(",")[1:] == table.splitlines()[2].split(",")[1:]
    ask(tmp_path / "new" / "deep" / "001.png", tmp_path / "one.csv")
    assert words.getvalue().endswith(f"1 image: {tmp_path / 'one.csv'}\n")
    with pytest.raises(UserError, match=r"bad\.png: not a readable image"):
        ask(tmp_path / "new" / "bad.png")
    damage(tmp_path / "new" / "deep" / "001.png")
    rest = ask(tmp_path / "new").splitlines()
    assert rest == [line for line in table.splitlines() if not line.startswith("deep/001.png")]
    assert "left out: deep/001.png: " in words.getvalue()
    with pytest.raises(UserError, match=r"001\.png: 1 image, none of which can be read: "):
        ask(tmp_path / "new" / "deep" / "001.png")
    with pytest.raises(UserError, match="no such folder to write to"):
        ask(tmp_path / "new", tmp_path / "nowhere" / "out.csv")
    (tmp_path / "link.csv").symlink_to(tmp_path / "nowhere" / "out.csv")
    with pytest.raises(UserError, match="no such folder to write to"):
        ask(tmp_path / "new", tmp_path / "link.csv")
    with pytest.raises(UserError, match="new is a folder: choose another --out"):
        ask(tmp_path / "new", tmp_path / "new", overwrite=True)


def test_a_name_that_no_disk_takes_is_refused_in_a_line(tmp_path, quiet):
    with pytest.raises(UserError, match=r"cannot be written \(File name too long\): choose another --out$"):
        predict_folder(
            tmp_path / "no model", tmp_path, tmp_path / ("x" * 300), device="cpu", workers=0, overwrite=False,
            console=quiet,
        )  # fmt: skip


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path, quiet):
    with pytest.raises(UserError, match=r"^/proc/out\.csv cannot be written \(.+\): choose another --out$"):
        predict_folder(
            tmp_path / "no model", tmp_path, Path("/proc/out.csv"), device="cpu", workers=0, overwrite=False,
            console=quiet,
        )  # fmt: skip


def test_a_disk_that_is_full_in_the_end_is_one_line(tmp_path, quiet, monkeypatch):
    def full(path, text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("semppl.deploy.predict.write_text", full)
    save_model(make(), tmp_path / "model")
    save_stripes(tmp_path / "new", [0, 1])
    with pytest.raises(RunError, match=r"out\.csv cannot be written \(No space left on device\): choose"):
        predict_folder(
            tmp_path / "model", tmp_path / "new", tmp_path / "out.csv", device="cpu", workers=0,
            overwrite=False, console=quiet,
        )  # fmt: skip


def test_images_are_cut_as_the_network_wants_them(pixels):
    large = torch.randint(256, (3, 3, 20, 20), dtype=torch.uint8)
    models = [replace(make(), network=build(crop=crop)) for crop in ("middle", "deepmind")]
    for model in models:
        network = model.network
        with torch.no_grad():
            expected = network.features(torch.stack([network.preprocess(image) for image in large]))
        assert torch.allclose(predict(model, large).features_SF, expected, atol=1e-5)
    middle, deepmind = (predict(model, large).features_SF for model in models)
    assert not torch.allclose(middle, deepmind, atol=1e-3)


def test_a_network_without_labels_answers_by_those_of_the_user(tmp_path, quiet):
    save_network(build(classes=()), tmp_path / "net")
    save_stripes(tmp_path / "new", [0, 1, 0, 1, 0, 1, 0, 1])
    table = tmp_path / "labels.csv"
    table.write_text("path,label\n" + "".join(f"00{i}.png,{'ab'[i % 2]}\n" for i in range(4)))
    for label, name in enumerate("ab"):
        save_stripes(tmp_path / "other" / name, [label] * 2, seed=1)
    how = {"device": "cpu", "workers": 0, "overwrite": False, "console": quiet}
    for labels in (table, tmp_path / "other"):
        text = predict_folder(tmp_path / "net", tmp_path / "new", None, labels=labels, **how)
        rows = list(csv.DictReader(io.StringIO(text)))
        assert [row["label"] for row in rows] == list("abababab"), labels
    damage(tmp_path / "other" / "a" / "001.png")  # one of four
    (tmp_path / "new" / "more.heic").write_text("")
    words = io.StringIO()
    how["console"] = Console(file=words, width=300)
    predict_folder(tmp_path / "net", tmp_path / "new", None, labels=tmp_path / "other", **how)
    assert "left out: a/001.png: " in words.getvalue()
    said = f"{tmp_path / 'new'}: 1 file .heic is not read"
    assert words.getvalue().count(said) == 1
    predict_folder(tmp_path / "net", tmp_path / "new", None, labels=table, **how)
    assert words.getvalue().count(said) == 2
    with pytest.raises(UserError, match="give some, with --labels"):
        predict_folder(tmp_path / "net", tmp_path / "new", None, **how)
