import io
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from rich.console import Console
from tests.conftest import save_stripes, tiny_config
from tests.core.test_rundir import HOLD
from tests.released.layout import DEPTHS, content, parts

import semppl
from semppl.config import DataConfig, NetConfig, ViewsConfig, from_yaml
from semppl.core.errors import RunError, UserError
from semppl.core.rundir import RunDirectory
from semppl.deploy.predict import predict_folder
from semppl.nets.encoder import ENCODERS
from semppl.nets.resnet import Bottleneck
from semppl.protocols.run import run_evaluate
from semppl.protocols.settings import EvaluateFlags
from semppl.protocols.subject import load_subject
from semppl.released.run import import_checkpoint
from semppl.train.checkpoint import load_checkpoint, newest_checkpoint
from semppl.train.pretrain import pretrain

pytestmark = pytest.mark.usefixtures("weights_as_torch_draws_them")


def random_content(**options):
    """As `layout`, with numbers that differ."""
    rng = np.random.default_rng(0)
    checkpoint = content(**options)
    for part in parts(checkpoint):
        for module, leaves in part.items():
            for leaf, x in leaves.items():
                low, high = (-0.1, 0.1) if leaf in ("w", "b", "offset") or "mean_ema" in module else (0.5, 1)
                leaves[leaf] = rng.uniform(low, high, x.shape).astype(np.float32)
    return checkpoint


def shorten_(patch):
    """One block of a ResNet-50 for each group: everything is there, and takes less time."""
    patch.setitem(ENCODERS, "resnet50", (Bottleneck, (1, 1, 1, 1)))
    patch.setitem(DEPTHS, "resnet50", (1, 1, 1, 1))


@pytest.fixture
def short(monkeypatch):
    shorten_(monkeypatch)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        shorten_(patch)
        return imported(tmp_path_factory.mktemp("bare"), heads=False)


@pytest.fixture
def bare(written, short):
    """A short ResNet-50 without heads, imported."""
    return written


def imported(folder, **options):
    file = folder / "resnet_50_1x_10_pct.pkl"
    file.write_bytes(pickle.dumps(random_content(**options)))
    words = io.StringIO()
    run = import_checkpoint(file, folder / "run", overwrite=False, console=Console(file=words, width=200))
    return run, words.getvalue()


@pytest.fixture
def pets(tmp_path):
    root = tmp_path / "pets"
    for label, name in enumerate(("cat", "owl")):
        save_stripes(root / "train" / name, [label] * 4, seed=label, size=40)
        save_stripes(root / "test" / name, [label] * 2, seed=10 + label, size=40)
    return root


def test_everything_of_the_file_is_in_the_run(tmp_path):
    run, words = imported(tmp_path)
    assert "resnet50, width 1, 23.508 million parameters, step 7" in words
    assert "with projector, predictor, classifier" in words
    stored = load_checkpoint(newest_checkpoint(run))
    assert stored["split"] is None
    assert stored["origin"]["file"] == "resnet_50_1x_10_pct.pkl"
    assert json.loads(run.environment.read_text())["origin"] == stored["origin"]
    net = from_yaml(run.config.read_text()).net
    assert (net.encoder, net.width, net.sk, net.padding, net.head_hidden, net.head_outputs) == (
        "resnet50",
        1,
        False,
        "same",
        16,
        8,
    )
    network = semppl.load(run.path)
    assert network.preprocessing.crop == "deepmind"
    assert network.preprocessing.size == 224
    assert network.classes == ("0", "1", "2", "3", "4")
    assert torch.equal(network.head.weight, stored["classifier"]["weight"])


def test_a_file_without_heads(bare):
    run, words = bare
    assert "with no head" in words
    assert semppl.load(run.path).head is None
    assert load_checkpoint(newest_checkpoint(run))["state"]["predictor"] is None


def test_it_is_evaluated_on_any_data(bare, pets):
    run, _ = bare
    words = io.StringIO()
    console = Console(file=words, width=400)
    with pytest.raises(UserError, match="imported weights come without data: say which images, with --data"):
        run_evaluate([run.path], EvaluateFlags(device="cpu", workers=0), console)
    flags = {"data": str(pets), "labels_per_class": 3, "device": "cpu", "workers": 0, "overwrite": True}
    for given, deepmind in (({}, True), ({"preprocessing": "middle"}, False)):
        run_evaluate([run.path], EvaluateFlags(protocol=("knn",), **flags, **given), console)
        result = json.loads((run.evaluations / "knn.json").read_text())
        assert ("as DeepMind's evaluation did" in result["protocol"]) is deepmind
        assert result["preprocessing"]["crop"] == ("deepmind" if deepmind else "middle")
        assert result["origin"]["step"] == 7


def test_features_of_the_two_ways_to_cut_are_not_mistaken_for_each_other(bare, pets):
    run, _ = bare
    found = []
    for crop in ("deepmind", "middle", "deepmind"):
        flags = EvaluateFlags(data=str(pets), labels_per_class=3, device="cpu", workers=0, preprocessing=crop)
        subject = load_subject(run.path, flags, Console(quiet=True))
        images = subject.desk.dataset.images[torch.arange(2)]
        found.append(subject.desk.features(subject.online.encoder, images).clone())
    assert torch.equal(found[0], found[2])
    assert not torch.allclose(found[0], found[1], rtol=1e-3)


def test_it_answers_with_labels_of_the_user(bare, pets, quiet):
    run, _ = bare
    how = {"device": "cpu", "workers": 0, "overwrite": False, "console": quiet}
    table = predict_folder(run.path, pets / "test", None, labels=pets / "train", **how)
    assert table.splitlines()[1].startswith("cat/000.png,")
    assert len(table.splitlines()) == 5
    with pytest.raises(UserError, match="give labelled images with --labels"):
        predict_folder(run.path, pets / "test", None, **how)


def test_a_new_run_starts_from_it(bare, pets, tmp_path):
    run, _ = bare
    words = io.StringIO()
    config = tiny_config(
        pets,
        data=DataConfig(labels_per_class=3, workers=0),
        views=ViewsConfig(large=2, small=0, large_size=32),
        net=NetConfig(head_hidden=16, head_outputs=8),
        batch_size=4,
        epochs=0.4,
    )
    state = pretrain(config, RunDirectory(tmp_path / "new"), console=Console(file=words), init_from=run.path)
    assert "holds no projector and no predictor" in " ".join(words.getvalue().split())
    net = from_yaml((tmp_path / "new" / "config.yaml").read_text()).net
    assert (net.encoder, net.padding) == ("resnet50", "same")
    assert state.step == 1


def test_what_is_refused_leaves_nothing_behind(bare, tmp_path):
    file = tmp_path / "broken.pkl"
    checkpoint = content()
    parts(checkpoint)[0].pop("res_net50/~/initial_conv")
    file.write_bytes(pickle.dumps(checkpoint))
    with pytest.raises(UserError, match=r"broken\.pkl: .*initial_conv"):
        import_checkpoint(file, tmp_path / "run", overwrite=False, console=Console(quiet=True))
    assert not (tmp_path / "run").exists()
    run, _ = bare
    with pytest.raises(UserError, match="is not empty: replace it with --overwrite"):
        import_checkpoint(file, run.path, overwrite=False, console=Console(quiet=True))


def test_a_file_in_the_run_that_would_be_replaced_is_kept(bare, tmp_path):
    run, _ = bare
    inside = run.path / "mine.pkl"
    inside.write_bytes(pickle.dumps(content()))
    with pytest.raises(UserError, match=r"mine\.pkl lies in .*, which would be replaced"):
        import_checkpoint(inside, run.path, overwrite=True, console=Console(quiet=True))
    assert inside.is_file()
    inside.unlink()


def test_a_full_disk_leaves_the_run_that_was_there(bare, tmp_path, monkeypatch):
    run, _ = bare
    before = {path.name for path in run.path.rglob("*")}
    file = tmp_path / "other.pkl"
    file.write_bytes(pickle.dumps(content()))

    def full(*_, **__):
        raise RuntimeError("[enforce fail] file write failed\nmore")

    monkeypatch.setattr("semppl.released.run.write_checkpoint", full)
    with pytest.raises(
        RunError, match=r"cannot write to .* \(\[enforce fail\] file write failed\): nothing was"
    ):
        import_checkpoint(file, run.path, overwrite=True, console=Console(quiet=True))
    assert {path.name for path in run.path.rglob("*")} == before
    assert not list(run.path.parent.glob(".*tmp"))


def test_another_import_replaces_the_first_when_told(tmp_path, short):
    run, _ = imported(tmp_path, heads=False)
    (run.path / "left.txt").write_text("old")
    file = tmp_path / "again.pkl"
    file.write_bytes(pickle.dumps(content(step=9)))
    import_checkpoint(file, run.path, overwrite=True, console=Console(quiet=True))
    assert newest_checkpoint(run).name == "step-00000009.ckpt"
    assert not (run.path / "left.txt").exists()


def test_a_run_at_work_is_not_replaced(tmp_path, short):
    run = RunDirectory(tmp_path / "run")
    run.prepare_("source: x", overwrite=False)
    file = tmp_path / "file.pkl"
    file.write_bytes(pickle.dumps(content(heads=False)))
    command = [sys.executable, "-c", HOLD, str(run.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=f"in use by process {process.pid} on"):
            import_checkpoint(file, run.path, overwrite=True, console=Console(quiet=True))
        process.communicate("\n", timeout=30)
    assert run.config.read_text() == "source: x"


def test_selective_kernels_are_imported_with_a_word_on_their_order(tmp_path):
    _, words = imported(tmp_path, sk=True)
    assert "resnet50 with selective kernels, width 1, 25.431 million parameters" in words
    assert "without dilation" in words
