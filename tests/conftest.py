"""Small things that tests of several rooms share."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from semppl.config import Config, DataConfig, MethodConfig, NetConfig, OptimConfig, ViewsConfig
from semppl.protocols.desk import Desk
from semppl.train.build import build_state
from semppl.train.prepare import load_for, resolved_for

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def quiet() -> Console:
    return Console(quiet=True)


def stripes(labels, size=8, noise=20, seed=0):
    """Images whose class can be seen: a bright stripe at a place that depends on it."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, noise + 1, (len(labels), size, size))
    bright = min(200, 255 - noise)
    for image, label in zip(images, labels, strict=True):
        image[(2 * label) % size] += bright
    return images.astype(np.uint8)


def stripes_npz(path: Path) -> Path:
    """48 images of 3 classes, 2 labels for each, hidden truth for all, 12 for testing."""
    truth = np.arange(48) % 3
    given = np.where(np.arange(48) < 6, truth, -1)
    test = np.arange(12) % 3
    np.savez(path, x=stripes(truth), y=given, y_hidden=truth, x_test=stripes(test, seed=1), y_test=test)
    return path


@pytest.fixture
def npz(tmp_path) -> Path:
    """See `stripes_npz`."""
    return stripes_npz(tmp_path / "stripes.npz")


def tiny_config(source, **changes) -> Config:
    """A run of six steps that takes a second."""
    defaults = {
        "source": str(source),
        "epochs": 2.0,
        "batch_size": 16,
        "log_every": 2,
        "checkpoint_every": 1.0,
        "probe_every": 1.0,
        "keep_checkpoints": 10,
        "data": DataConfig(),
        "views": ViewsConfig(large=2, small=1),
        "net": NetConfig(encoder="resnet10", width=0.0625, head_hidden=16, head_outputs=8),
        "method": MethodConfig(positives=2, queue_capacity=20),
        "optim": OptimConfig(name="adamw", base_lr=0.01),
    }
    return Config(**{**defaults, **changes})


def save_stripes(folder, labels, *, seed=0, size=8, suffix="png", noise=20):
    """The same as files, named by their number."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, pixels in enumerate(stripes(labels, size=size, seed=seed, noise=noise)):
        Image.fromarray(pixels).save(folder / f"{i:03d}.{suffix}")


@pytest.fixture
def class_folders(tmp_path) -> Path:
    """Class folders cat, dog and owl with 12 images of 8 px each."""
    root = tmp_path / "pets"
    for label, name in enumerate(("cat", "dog", "owl")):
        save_stripes(root / name, [label] * 12, seed=label)
    return root


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


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
