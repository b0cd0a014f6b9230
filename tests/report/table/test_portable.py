import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from semppl.config import Config, DataConfig, from_yaml, to_yaml
from semppl.protocols.results import Outcome, write_outcome
from semppl.report.table.portable import portable, portable_file


def test_no_path_of_a_machine():
    assert portable("/data/cifar.npz") == "cifar.npz"
    assert portable("/home/me/runs/a/checkpoints/last.ckpt") == "a/checkpoints/last.ckpt"
    assert portable("/checkpoints/last.ckpt") == "checkpoints/last.ckpt"
    assert portable(r"C:\Users\me\photos") == "photos"
    same = ["CIFAR10", "data/x", "/", "", 3, None]
    assert [portable(each) for each in same] == same


@pytest.mark.parametrize(
    "name",
    ["2012_01", "007", "#1", "yes", "null", "[set]", "12:30", "@photos", "é", "o'brien", "a: b", "x " * 60],
)
def test_a_configuration_is_the_same_but_for_folders(name):
    """Whatever YAML makes of the name alone."""
    data = DataConfig(labels="project/data/labels.csv", masks=f"/data/{name}", labels_per_class=4)
    config = Config(source=f"/data/{name}", data=data)
    copied = from_yaml(portable_file("config.yaml", to_yaml(config)))
    assert copied == replace(config, source=name, data=replace(data, masks=name))


def test_what_names_no_folder_stays_as_it_is_written():
    text = "source:   CIFAR10  # by hand\nepochs: 1e3\n"
    assert portable_file("config.yaml", text) == text
    assert portable_file("split.sha256", "12  /data/split.csv\n") == "12  /data/split.csv\n"
    for damaged in ('{"flags": "/x/y', "[" * 10**5):
        assert portable_file("knn.json", damaged) == damaged
    assert portable_file("config.yaml", "a: [/x/y") == "a: [/x/y"
    assert portable_file("knn.json", '["/x/y"]') == '["/x/y"]'


def test_a_result_is_written_as_evaluate_does(tmp_path):
    details = {"classes": ["/m/01", "/g/01"], "confusion": [[1, 2], [3, 4]]}
    facts = {
        "classes": ["/m/01", "/g/01"],
        "flags": {"runs": ["/home/é/r"], "checkpoint": None, "k": 5},
        "environment": {"platform": "Linux-6.1-own", "python": "3.11"},
    }
    write_outcome(tmp_path / "a.json", Outcome("knn", [], details=details), facts)
    other = facts | {"flags": facts["flags"] | {"runs": ["r"]}}
    other |= {"environment": {"platform": "Linux", "python": "3.11"}}
    write_outcome(tmp_path / "b.json", Outcome("knn", [], details=details), other)
    assert portable_file("a.json", (tmp_path / "a.json").read_text()) == (tmp_path / "b.json").read_text()


def test_other_files():
    text = json.dumps({"python": "3.11", "platform": "Linux-6.1-own", "device": "H200"}, indent=2) + "\n"
    assert portable_file("environment.json", text) == text.replace("Linux-6.1-own", "Linux")
    assert json.loads(portable_file("started_from.json", '{"path": "/r/first", "step": 9}')) == {
        "path": "first",
        "step": 9,
    }
    assert yaml.safe_load(portable_file("fit.yaml", f"out: {Path('/r/x')}\nminutes: 3.0\n")) == {
        "out": "x",
        "minutes": 3.0,
    }
