import json

import pytest
import torch
import torchvision

from semppl.deploy.formats.format import Subject
from semppl.deploy.formats.torchvision import TORCHVISION

PLAIN = {"encoder": "resnet18", "width": 1, "stem": "imagenet", "size": 32}
IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize(
    ("change", "call"),
    [
        ({}, "torchvision.models.resnet18(num_classes=3)"),
        ({"classes": ()}, "torchvision.models.resnet18(); model.fc = torch.nn.Identity()"),
        (
            {"encoder": "resnet10"},
            "ResNet(torchvision.models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=3)",
        ),
        ({"encoder": "resnet10", "classes": ()}, "torchvision.models.resnet.BasicBlock, [1, 1, 1, 1])"),
    ],
)
@torch.inference_mode()
def test_torchvision_answers_as_we_do(change, call, make_network, tmp_path):
    network = make_network(**PLAIN | change)
    subject, expected = Subject(network), network(IMAGES)
    assert TORCHVISION.obstacle(network) is None
    TORCHVISION.write(subject, tmp_path)
    line, names = TORCHVISION.line(network, tmp_path), {}
    assert call in line
    exec(line, names)
    for model in (TORCHVISION.answers(subject, tmp_path), names["model"]):
        torch.testing.assert_close(model(IMAGES), expected, rtol=1e-5, atol=1e-5)


def test_the_file_holds_the_names_of_torchvision_and_nothing_else(make_network, tmp_path):
    TORCHVISION.write(Subject(make_network(**PLAIN)), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "resnet18.pth"]
    weights = torch.load(tmp_path / "resnet18.pth", weights_only=True)
    theirs = torchvision.models.resnet18(num_classes=3).state_dict()
    assert {name: value.shape for name, value in weights.items()} == {
        name: value.shape for name, value in theirs.items()
    }
    assert json.loads((tmp_path / "config.json").read_text())["classes"] == ["cat", "dog", "owl"]


def test_the_line_of_a_depth_without_a_function_names_the_block(make_network, tmp_path):
    network = make_network("resnet200", stem="imagenet", size=32)
    call = "torchvision.models.resnet.ResNet(torchvision.models.resnet.Bottleneck, [3, 24, 36, 3]"
    assert call in TORCHVISION.line(network, tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"encoder": "timm:test_convnext"}, "torchvision does not have timm:test_convnext"),
        ({"encoder": "resnet50", "sk": True, "width": 0.0625}, "no ResNet with selective kernels"),
        ({"width": 0.0625}, "no ResNet of width 0.0625"),
        ({"encoder": "resnet10", "padding": "same"}, "pads as TensorFlow does"),
    ],
)
def test_what_it_does_not_have(change, words, make_network):
    assert words in TORCHVISION.obstacle(make_network(**PLAIN | change))
