import pytest
import torch
from rich.console import Console
from tests.conftest import tiny_config

from semppl.config import DataConfig
from semppl.fit.desk import Desk
from semppl.train.build import build_state
from semppl.train.pretrain import load_for, resolved_for

CPU = torch.device("cpu")


@pytest.fixture
def make_desk(class_folders):
    """A desk over the class folders, five labels for each class of which one is held out."""

    def make(**data):
        options = {"labels_per_class": 5, "validation": 0.2, "workers": 0, **data}
        config = tiny_config(class_folders, data=DataConfig(**options), batch_size=8)
        dataset = load_for(config, CPU)
        return Desk(resolved_for(config, dataset), dataset, CPU, Console(quiet=True))

    return make


@pytest.fixture
def desk(make_desk):
    return make_desk()


@pytest.fixture
def online(desk):
    """Networks as they start."""
    return build_state(desk.config, 3, CPU).online
