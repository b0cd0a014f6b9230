"""Small things that tests of several rooms share.

Torch and what needs it are imported where they are used: the process that hands out the tests reads this file
too, before those that run them start.
"""

import gc
import signal
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from semppl.config import Config, DataConfig, MethodConfig, NetConfig, OptimConfig, ViewsConfig

# those that take longest come first, so that at the end nobody waits for one of them; those that start
# processes of their own between others
FIRST = (
    "train/test_equal_ranks.py",
    "train/test_pretrain.py",
    "deploy/test_export.py",
    "train/test_kills.py",
    "released/test_convert.py",
    "train/test_recovery.py",
    "slurm/test_queue.py",
    "released/test_run.py",
    "nets/test_encoder.py",
    "train/test_ranks.py",
    "deploy/formats/test_onnx.py",
    "test_cli.py",
    "train/test_elastic.py",
)
gc.disable()  # until all is imported: nothing of it goes away


def pytest_configure():
    """Shells start what runs behind them deaf to Ctrl-C, and tests send that to others and themselves."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    place = {Path(__file__).parent / name: number for number, name in enumerate(FIRST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


def pytest_collection_finish():
    """Modules and tests stay: who looks for garbage among them needs a quarter of a second each time."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure():
    """At the end libraries count what is left over."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _one_thread():
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def weights_as_torch_draws_them(monkeypatch):
    """For networks whose weights are replaced: drawing ours takes longest of all that happens to them."""
    for module in ("resnet", "heads"):
        monkeypatch.setattr(f"semppl.nets.{module}.initialise_", lambda network: None)


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


def damage(file: Path) -> None:
    """In the middle of a PNG file, where looking at its two ends does not see it."""
    content = bytearray(file.read_bytes())
    content[41:60] = bytes(19)
    file.write_bytes(content)


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
    import torch

    from semppl.protocols.desk import Desk
    from semppl.train.prepare import load_for, resolved_for

    cpu = torch.device("cpu")

    def make(**data):
        options = {"labels_per_class": 5, "validation": 0.2, "workers": 0, **data}
        config = tiny_config(class_folders, data=DataConfig(**options), batch_size=8)
        dataset = load_for(config, cpu)
        return Desk(resolved_for(config, dataset), dataset, cpu, Console(quiet=True))

    return make


@pytest.fixture
def desk(make_desk):
    return make_desk()


@pytest.fixture
def online(desk):
    """Networks as they start."""
    from semppl.train.build import build_state

    return build_state(desk.config, 3, desk.device).online
