import io

import pytest
import torch
from rich.console import Console
from tests.conftest import save_stripes
from tests.deploy.conftest import build

from semppl.core.errors import UserError
from semppl.deploy.teach import read_labels, taught
from semppl.evaluate.calibration import calibrate
from semppl.evaluate.features import extract_features
from semppl.evaluate.linear import fit_linear, left_out_logits


@pytest.fixture
def folder(tmp_path):
    save_stripes(tmp_path / "images", [0, 1, 2, 0, 1, 2, 0, 1])
    return tmp_path / "images"


def table(folder, labels):
    path = folder.parent / "labels.csv"
    path.write_text("path,label\n" + "".join(f"{i:03d}.png,{label}\n" for i, label in enumerate(labels)))
    return path


def features(network, dataset):
    return extract_features(
        network.encoder,
        dataset.images[dataset.labelled_L],
        size=8,
        mean_3=network.mean_3,
        std_3=network.std_3,
        workers=0,
        prepare=network.preprocessing.prepare,
    )


def test_the_labelled_images_vote_and_a_linear_layer_decides(folder):
    network = build(classes=(), crop="deepmind")
    dataset = read_labels(folder, table(folder, "abcabc"), 0)
    words = io.StringIO()
    model = taught(network, dataset, workers=0, console=Console(file=words, width=300))
    assert model.classes == ("a", "b", "c")
    assert model.decides == "linear"
    assert list(model.bank_names) == [f"{i:03d}.png" for i in range(6)]
    features_LF = features(network, dataset)
    labels_L = torch.tensor([0, 1, 2, 0, 1, 2])
    fit = fit_linear(features_LF, labels_L, classes=3)
    left_out = left_out_logits(features_LF, labels_L, classes=3, strength=fit.strength)
    scale = calibrate(*left_out).scale
    assert scale != 1
    assert f"logits × {scale:.3g}, chosen on 6 labels" in words.getvalue()
    with torch.no_grad():
        logits_LY = model.network.logits(features_LF).double()
    assert torch.allclose(logits_LY, scale * fit.logits(features_LF), rtol=1e-4, atol=1e-4 * scale)
    assert torch.equal(model.bank.labels_L, torch.tensor([0, 1, 2, 0, 1, 2]))
    assert network.head is None


def test_one_label_for_each_class_leaves_probabilities_as_they_are(folder):
    network, words = build(classes=()), io.StringIO()
    dataset = read_labels(folder, table(folder, "abc"), 0)
    model = taught(network, dataset, workers=0, console=Console(file=words))
    assert "no label can be left out" in words.getvalue()
    features_LF = features(network, dataset)
    fit = fit_linear(features_LF, torch.tensor([0, 1, 2]), classes=3)
    with torch.no_grad():
        assert torch.allclose(model.network.logits(features_LF).double(), fit.logits(features_LF), atol=1e-4)


def test_class_folders_elsewhere(tmp_path, folder, quiet):
    for label, name in enumerate(("x", "y")):
        save_stripes(tmp_path / "known" / name, [label] * 3)
    model = taught(build(classes=()), read_labels(folder, tmp_path / "known", 0), workers=0, console=quiet)
    assert model.classes == ("x", "y")
    assert len(model.bank_names) == 6


def test_one_class_is_no_question(folder):
    with pytest.raises(UserError, match="only one class, 'a'"):
        read_labels(folder, table(folder, "aaa"), 0)
    with pytest.raises(UserError, match=r"images: .*class"):
        read_labels(folder, folder, 0)
