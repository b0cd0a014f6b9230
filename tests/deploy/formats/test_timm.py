import json
import math

import numpy as np
import pytest
import timm
import torch
from PIL import Image

from semppl.deploy.formats.format import Subject
from semppl.deploy.formats.timm import TIMM, crop_share, make
from semppl.views.preprocessing import Preprocessing

RESNET = {"encoder": "resnet18", "width": 1, "stem": "imagenet", "size": 32}
SELECTIVE = {"encoder": "resnet50", "sk": True}
THEIRS = {"width": 1, "stem": "imagenet", "size": 64}


def written(network, folder):
    assert TIMM.obstacle(network) is None
    TIMM.write(Subject(network), folder)
    return json.loads((folder / "config.json").read_text())


@pytest.mark.parametrize(
    ("change", "architecture", "arguments"),
    [
        (RESNET, "resnet18", None),
        (RESNET | {"encoder": "resnet10", "classes": ()}, "resnet18", {"layers": [1, 1, 1, 1]}),
        (RESNET | {"encoder": "resnet10"}, "resnet18", {"layers": [1, 1, 1, 1]}),
        (RESNET | SELECTIVE, "skresnext50_32x4d", None),
        (
            THEIRS | {"encoder": "timm:test_vit"},
            "test_vit",
            {"dynamic_img_size": True, "img_size": [160, 160]},
        ),
        (THEIRS | {"encoder": "timm:test_vit", "classes": ()}, "test_vit", None),
        (THEIRS | {"encoder": "timm:test_convnext.r160_in1k"}, "test_convnext", None),
        (THEIRS | {"encoder": "timm:dla46_c"}, "dla46_c", None),  # classifies by a 1×1 convolution
    ],
    ids=lambda value: value.get("encoder") if isinstance(value, dict) else None,
)
@torch.inference_mode()
def test_timm_answers_as_we_do(change, architecture, arguments, make_network, tmp_path):
    network = make_network(**change)
    config = written(network, tmp_path)
    assert config["architecture"] == architecture
    assert arguments is None or config["model_args"] == arguments
    names, size = {}, network.preprocessing.size
    exec(TIMM.line(network, tmp_path), names)
    images = torch.randn(2, 3, size, size)
    expected = network(images)
    for model in (names["model"], TIMM.answers(Subject(network), tmp_path)):
        difference = (model(images) - expected).abs().max()
        assert difference <= 1e-5 * expected.abs().max()
        assert model.num_classes == len(network.classes)


def test_depths_of_selective_kernels_that_have_no_name(make_network):
    made = make(make_network("resnet101", sk=True, size=32, stem="imagenet"))
    assert (made.architecture, made.arguments) == ("skresnext50_32x4d", {"layers": [3, 4, 23, 3]})


def test_timm_prepares_images_as_we_do(make_network, tmp_path):
    network = make_network(**RESNET | {"encoder": "resnet10", "size": 96})
    written(network, tmp_path)
    model = timm.create_model(f"local-dir:{tmp_path}", pretrained=True)
    said = timm.data.resolve_model_data_config(model)
    assert said["input_size"] == [3, 96, 96]
    assert (said["mean"], said["std"]) == ([0.5, 0.4, 0.3], [0.2, 0.3, 0.25])
    assert (said["interpolation"], said["crop_mode"]) == ("bicubic", "center")
    assert said["crop_pct"] == pytest.approx(96 / 110)
    assert tuple(model.pretrained_cfg["label_names"]) == ("cat", "dog", "owl")
    transform = timm.data.create_transform(**said, is_training=False)
    for shape, levels in (((300, 300), 1), ((300, 400), 4)):  # timm crops later: up to half a pixel aside
        image = waves(*shape)
        difference = (transform(image) - network.preprocess(image)).abs().max() * 255 * 0.2
        assert difference < levels + 0.01


def waves(height, width):
    down, across = np.mgrid[0:height, 0:width]
    planes = [np.sin(down / 23), np.cos(across / 31), np.sin((down + across) / 29)]
    return Image.fromarray((127 + 120 * np.stack(planes, -1)).astype(np.uint8))


def test_an_export_can_be_fine_tuned_to_other_classes(make_network, tmp_path):
    network = make_network(**RESNET | {"encoder": "resnet10"})
    written(network, tmp_path)
    model = timm.create_model(f"local-dir:{tmp_path}", pretrained=True, num_classes=7)
    assert model.fc.weight.shape == (7, 512)
    assert torch.equal(model.conv1.weight, network.encoder.conv1.weight)


@pytest.mark.parametrize("crop", ["middle", "deepmind"])
def test_rounded_down_as_timm_does_the_side_is_ours(crop):
    for size in range(8, 1025):
        side = size + 32 if crop == "deepmind" else round(size * 256 / 224) if size >= 96 else size
        share = crop_share(Preprocessing(size, (), (), crop))
        assert math.floor(size / share) == side
        assert share == pytest.approx(size / side, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (RESNET | {"width": 0.0625}, "no ResNet of width 0.0625"),
        (THEIRS | {"encoder": "timm:test_convnext", "hidden": True}, "no hidden layer"),
        (
            THEIRS | {"encoder": "timm:deit_tiny_distilled_patch16_224"},
            "deit_tiny_distilled_patch16_224 does not give its classes by one linear layer",
        ),
    ],
)
def test_what_it_does_not_have(change, words, make_network):
    assert words in TIMM.obstacle(make_network(**change))


def test_two_classifiers_do_not_matter_to_the_encoder_alone(make_network):
    network = make_network(**THEIRS | {"encoder": "timm:deit_tiny_distilled_patch16_224", "classes": ()})
    assert TIMM.obstacle(network) is None
