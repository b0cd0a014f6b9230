import pytest
from rich.console import Console
from tests.conftest import save_stripes, tiny_config
from tests.core.recorders import PlainRecorder

from semppl.config import DataConfig, MethodConfig
from semppl.core.rundir import RunDirectory
from semppl.protocols import desk as desk_module
from semppl.protocols import subject as subject_module
from semppl.protocols.settings import EvaluateFlags
from semppl.protocols.subject import load_subject
from semppl.train.pretrain import pretrain

QUIET = Console(quiet=True)
FLAGS = {"device": "cpu", "workers": 0}


@pytest.fixture(scope="session")
def pets(tmp_path_factory):
    """Class folders: 36 images of 3 classes, 30 for testing, so hard to tell apart that a classifier is right
    in some of them and wrong in others.
    """
    root = tmp_path_factory.mktemp("data") / "pets"
    for label, name in enumerate(("cat", "dog", "owl")):
        save_stripes(root / "train" / name, [label] * 12, seed=label, noise=150)
        save_stripes(root / "test" / name, [label] * 10, seed=10 + label, noise=150)
    return root


@pytest.fixture(scope="session")
def trained(pets, tmp_path_factory):
    """A tiny run on them with 5 labels for each class."""
    run = RunDirectory(tmp_path_factory.mktemp("runs") / "pets")
    config = tiny_config(pets, data=DataConfig(labels_per_class=5, workers=0), batch_size=12, epochs=4.0)
    pretrain(config, run, console=QUIET)
    return run


@pytest.fixture(scope="session")
def unlabelled(pets, tmp_path_factory):
    """The same of one epoch, whose training saw none of these labels."""
    run = RunDirectory(tmp_path_factory.mktemp("runs") / "relic")
    config = tiny_config(
        pets,
        data=DataConfig(labels_per_class=5, workers=0),
        method=MethodConfig(positives=0),
        batch_size=12,
        epochs=1.0,
    )
    pretrain(config, run, console=QUIET)
    return run


@pytest.fixture
def subject_of():
    def load(run, **flags):
        return load_subject(run.path, EvaluateFlags(**{**FLAGS, "cache": False, **flags}), QUIET)

    return load


@pytest.fixture
def subject(trained, subject_of):
    return subject_of(trained)


@pytest.fixture
def answered(monkeypatch):
    """All logits that were marked."""
    seen = []
    real = subject_module.measure_answers

    def spy(logits_NY, truth_N, **how):
        seen.append(logits_NY)
        return real(logits_NY, truth_N, **how)

    monkeypatch.setattr(subject_module, "measure_answers", spy)
    return seen


@pytest.fixture
def birds(tmp_path):
    """Birdsnap with three species."""
    for label, name in enumerate(("crow", "jay", "wren")):
        save_stripes(tmp_path / "birdsnap" / "train" / name, [label] * 20, seed=label)
        save_stripes(tmp_path / "birdsnap" / "test" / name, [label] * 5, seed=10 + label)
    return tmp_path


@pytest.fixture
def recorded(monkeypatch):
    """Called, the device records from then on; gives what records."""

    def begin():
        recorder = PlainRecorder()
        monkeypatch.setattr(desk_module, "choose_speed", lambda *_: "graph")
        monkeypatch.setattr(desk_module, "CudaRecorder", lambda device: recorder)
        return recorder

    return begin
