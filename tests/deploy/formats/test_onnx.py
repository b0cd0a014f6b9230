import json
import re
import sys

import onnxruntime
import pytest
import torch

from semppl.core.errors import RunError, UserError
from semppl.deploy.formats import onnx as module
from semppl.deploy.formats.format import Subject
from semppl.deploy.formats.onnx import ONNX, require_onnx
from semppl.nets.encoder import ENCODERS
from semppl.nets.resnet import Bottleneck


def ask(session, images):
    return torch.from_numpy(session.run(None, {"images": images.numpy()})[0])


@pytest.mark.parametrize(
    "change",
    [
        {"hidden": True},
        {"classes": (), "padding": "same", "stem": "imagenet", "size": 33},
        {"encoder": "resnet50", "sk": True, "stem": "imagenet", "size": 32},
        {"encoder": "timm:test_vit", "width": 1, "size": 64},
    ],
    ids=("hidden layer", "SAME padding", "selective kernels", "positions of another size"),
)
@torch.inference_mode()
def test_onnxruntime_answers_as_we_do_for_any_number_of_images(change, make_network, tmp_path, monkeypatch):
    monkeypatch.setitem(ENCODERS, "resnet50", (Bottleneck, (1, 1, 1, 1)))  # its blocks, in less time
    network = make_network(**change)
    assert ONNX.obstacle(network) is None
    ONNX.write(Subject(network), tmp_path)
    names, size = {}, network.preprocessing.size
    exec(ONNX.line(network, tmp_path), names)
    answers = ONNX.answers(Subject(network), tmp_path)
    for count in (1, 3, 5):
        images = torch.randn(count, 3, size, size)
        expected = network(images)
        for given in (answers(images), ask(names["model"], images)):
            assert (given - expected).abs().max() <= 1e-4 * expected.abs().max()


def test_the_file_says_how_it_is_used_and_not_where_it_was_made(make_network, tmp_path):
    network = make_network(classes=("cat", "\udcff"))
    ONNX.write(Subject(network), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.onnx"]
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (images,), (logits,) = session.get_inputs(), session.get_outputs()
    assert (images.name, images.shape[1:], logits.name) == ("images", [3, 8, 8], "logits")
    said = session.get_modelmeta().custom_metadata_map
    beside = json.loads((tmp_path / "config.json").read_text())
    assert {key: json.loads(value) for key, value in said.items()} == beside
    assert beside["classes"] == ["cat", "\udcff"]
    assert beside["mean"] == [0.5, 0.4, 0.3]
    assert not re.search(rb"\.py\b", (tmp_path / "model.onnx").read_bytes())


def test_weights_too_large_for_one_file_lie_beside_it(make_network, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SINGLE", 0)
    network = make_network(classes=())
    (tmp_path / "first").mkdir()
    ONNX.write(Subject(network), tmp_path / "first")
    (tmp_path / "first").rename(tmp_path / "second")
    assert (tmp_path / "second" / "model.onnx.data").stat().st_size > 10_000
    images = torch.randn(2, 3, 8, 8)
    with torch.inference_mode():
        given, expected = ONNX.answers(Subject(network), tmp_path / "second")(images), network(images)
    torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("library", ["onnx", "onnxscript", "onnxruntime"])
def test_a_library_that_is_missing_is_an_extra_of_ours(library, monkeypatch):
    require_onnx()
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UserError, match=rf'needs {library}: pip install "semppl\[onnx\]"'):
        require_onnx()


def test_what_torch_cannot_export_is_one_line(make_network, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise torch.onnx.OnnxExporterError("\nno such operator\nand much more")

    monkeypatch.setattr(torch.onnx, "export", fail)
    with pytest.raises(RunError, match=r"^onnx: torch cannot export resnet10 \(no such operator\)$"):
        ONNX.write(Subject(make_network()), tmp_path)


def test_it_is_verified_with_batches_other_than_the_one_that_was_traced():
    assert ONNX.batches == (1, 5)
