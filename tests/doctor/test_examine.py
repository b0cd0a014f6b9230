import json

import pytest
from rich.console import Console
from tests.conftest import tiny_config
from tests.doctor.conftest import CPU

from semppl.config import DataConfig
from semppl.doctor.examine import examine
from semppl.doctor.trials import Probed, Trial


@pytest.fixture
def quiet():
    return Console(quiet=True)


def test_everything_is_found_for_one_device_and_eight(npz, flags, quiet):
    said = []
    found = examine(tiny_config(npz), flags, CPU, 0, quiet, said.append)
    assert json.loads(json.dumps(found))["images"] == 48
    assert found["batch_size"] == 16
    assert found["steps"] == 6
    assert found["probe"]["images_per_second"] > 0
    assert found["memory"]["queue"] == 2 * 20 * 8 * 4
    # 64 ranks cannot share 16 images
    assert [row["devices"] for row in found["projection"]] == [1, 8]
    assert [row["here"] for row in found["projection"]] == [True, False]
    assert found["traffic"][0]["total"] == 0
    assert found["traffic"][1]["total"] > 0
    assert found["projection"][1]["hours"][0] < found["projection"][1]["hours"][1]
    assert any("whole batch" in line for line in said)


def test_reading_holds_up_every_device_of_a_machine(class_folders, flags, quiet, monkeypatch):
    data = DataConfig(labels_per_class=2, feed="streaming", workers=0)
    real = Trial.probe

    def slow(trial):
        seen = vars(real(trial)) | {"loader": 0.5}
        return Probed(**seen)

    monkeypatch.setattr(Trial, "probe", slow)
    monkeypatch.setattr("semppl.doctor.trials.SHORT_SECONDS", 0.05)
    config = tiny_config(class_folders, data=data, batch_size=8)
    found = examine(config, flags, CPU, 2, quiet, lambda line: None)
    assert [row["devices"] for row in found["projection"]] == [1, 2, 8]
    # half an image a second for two devices
    assert [row["compute"] for row in found["projection"]] == pytest.approx([32.0, 16.0, 8.0])


def test_where_nothing_fits_there_is_nothing_to_project(npz, flags, quiet, monkeypatch):
    monkeypatch.setattr(Trial, "probe", lambda trial: None)
    found = examine(tiny_config(npz), flags, CPU, 0, quiet, lambda line: None)
    assert found["probe"] is None
    assert (found["largest_batch"], found["part"], found["projection"]) == (0, 0, [])
