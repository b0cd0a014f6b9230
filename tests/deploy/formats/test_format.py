import json

import pytest

from semppl.deploy.formats.format import facts, hidden_obstacle, resnet_obstacle, write_config

PLAIN = {"encoder": "resnet10", "width": 1, "stem": "imagenet", "size": 32}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"width": 0.0625}, "no ResNet of width 0.0625"),
        ({"stem": "small"}, "no ResNet with a stem for small images"),
        ({"padding": "same"}, "no ResNet that pads as TensorFlow does"),
        ({"hidden": True}, "no hidden layer before its classes"),
    ],
)
def test_every_obstacle_is_named(change, words, make_network):
    assert resnet_obstacle(make_network(**PLAIN | change), "timm").startswith(f"timm has {words}")


def test_a_plain_resnet_has_none_with_or_without_classes(make_network):
    assert resnet_obstacle(make_network(**PLAIN), "timm") is None
    assert resnet_obstacle(make_network(**PLAIN, classes=()), "timm") is None
    assert hidden_obstacle(make_network(classes=()), "timm") is None


def test_facts_survive_json_whatever_the_classes_are_called(make_network, tmp_path):
    names = ('a "b"', "图", "\udcff", "two\nlines")
    network = make_network(classes=names)
    write_config(tmp_path, facts(network))
    said = json.loads((tmp_path / "config.json").read_text())
    assert tuple(said["classes"]) == names
    assert (said["input_size"], said["crop"], said["mean"]) == (8, "middle", [0.5, 0.4, 0.3])
    assert said["architecture"]["encoder"] == "resnet10"


def test_facts_tell_how_images_are_cut(make_network):
    assert facts(make_network(crop="deepmind"))["crop"] == "deepmind"
    assert facts(make_network())["crop"] == "middle"
