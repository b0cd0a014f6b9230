import io
import json
import sys
from dataclasses import replace

import huggingface_hub
import onnxruntime
import pytest
import timm
import torch
import torchvision
from rich.console import Console
from tests.conftest import tiny_config
from torchvision.models.resnet import BasicBlock

import semppl
from semppl.config import NetConfig, ViewsConfig
from semppl.core.errors import RunError, UserError
from semppl.core.rundir import RunDirectory
from semppl.deploy import export as module
from semppl.deploy.export import TABLE, compare, read_subject, run_export
from semppl.deploy.load import load
from semppl.deploy.model import load_model, save_model, save_network
from semppl.deploy.settings import FORMATS, ExportFlags
from semppl.train.pretrain import pretrain

PLAIN = {"encoder": "resnet10", "width": 1, "stem": "imagenet", "size": 32}
TWO = ("torchvision", "timm")


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=60, soft_wrap=False)


@pytest.fixture
def plain(make_network, tmp_path):
    """A folder with a network that every format takes."""
    save_network(make_network(**PLAIN), tmp_path / "pets")
    return tmp_path / "pets"


@pytest.fixture
def tiny(make_network, tmp_path):
    save_network(make_network(), tmp_path / "tiny")
    return tmp_path / "tiny"


def everything(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def said(console):
    return console.file.getvalue().splitlines()


def test_every_format_is_in_the_table():
    assert tuple(TABLE) == FORMATS


def test_all_formats_at_once_each_with_a_line_that_loads_it(plain, console):
    differences = run_export(plain, ExportFlags(format=FORMATS), console)
    assert tuple(differences) == FORMATS
    assert differences["safetensors"] == 0
    assert all(0 <= value < 1e-3 for value in differences.values())
    network, images = load(plain), torch.randn(2, 3, 32, 32)
    lines = said(console)
    assert len(lines) == 2 * len(FORMATS)
    for name, result, line in zip(FORMATS, lines[::2], lines[1::2], strict=True):
        assert result.startswith(f"{name}: largest difference ")
        assert result.endswith(f": {plain / 'export' / name}")
        names = {}
        exec(line.strip(), names)
        model = names["model"]
        with torch.inference_mode():
            expected = network(images)
            given = (
                torch.from_numpy(model.run(None, {"images": images.numpy()})[0])
                if name == "onnx"
                else model(images)
            )
        assert (given - expected).abs().max() <= 1e-4 * expected.abs().max()


def test_a_run_of_pretraining_gives_its_encoder(npz, tmp_path, console, quiet):
    pretrain(tiny_config(npz, epochs=1.0), RunDirectory(tmp_path / "run"), console=quiet)
    run_export(tmp_path / "run", ExportFlags(), console)
    again, before = load(tmp_path / "run" / "export" / "safetensors"), load(tmp_path / "run")
    images = torch.randn(2, 3, again.preprocessing.size, again.preprocessing.size)
    assert again.head is None
    assert again.preprocessing == before.preprocessing
    with torch.inference_mode():
        assert torch.equal(again(images), before(images))


@pytest.mark.parametrize("part", ["auto", "classifier"])
def test_a_model_keeps_its_votes_in_our_own_format(part, make_model, tmp_path, console):
    model = make_model("k-NN")
    save_model(model, tmp_path / "run" / "model")
    run_export(tmp_path / "run", ExportFlags(part=part), console)
    again = load_model(tmp_path / "run" / "export" / "safetensors")
    assert again.decides == "k-NN"
    assert torch.equal(again.bank.features_LF, model.bank.features_LF)
    assert len(said(console)) == 2  # no remark


def test_the_encoder_of_a_model_leaves_the_rest_behind(make_model, tmp_path, quiet):
    save_model(make_model(), tmp_path / "run" / "model")
    run_export(tmp_path / "run", ExportFlags(part="encoder", out=tmp_path / "out"), quiet)
    network = load(tmp_path / "out")
    assert (network.head, network.classes) == (None, ())
    assert read_subject(tmp_path / "out", "auto").model is None


def test_where_votes_decide_other_formats_are_said_to_have_none(make_model, tmp_path, console):
    save_model(make_model("k-NN", **PLAIN), tmp_path / "model")
    run_export(tmp_path, ExportFlags(format=("torchvision",)), console)
    assert "votes of labelled images decide" in said(console)[-1]


def test_timm_resizes_otherwise_than_deepmind(make_network, tmp_path, console):
    save_network(make_network(**PLAIN, crop="deepmind"), tmp_path)
    run_export(tmp_path, ExportFlags(format=("timm",)), console)
    assert "timm resizes images with antialiasing" in said(console)[-1]


def test_an_export_can_be_exported(tiny, tmp_path, quiet):
    run_export(tiny, ExportFlags(out=tmp_path / "first"), quiet)
    run_export(tmp_path / "first", ExportFlags(), quiet)
    weights = "model.safetensors"
    second = tmp_path / "first" / "export" / "safetensors" / weights
    assert second.read_bytes() == (tiny / weights).read_bytes()


def test_one_format_goes_to_out_itself_and_several_to_folders_in_it(plain, tmp_path, quiet):
    run_export(plain, ExportFlags(format=("torchvision",), out=tmp_path / "one"), quiet)
    assert sorted(everything(tmp_path / "one")) == ["config.json", "resnet10.pth"]
    run_export(plain, ExportFlags(format=TWO, out=tmp_path / "two"), quiet)
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == ["timm", "torchvision"]


def noisy(write):
    def tampered(subject, folder):
        network = subject.network
        weight = network.encoder.conv1.weight
        kept = weight.detach().clone()
        with torch.no_grad():
            weight.mul_(1.01)
            write(subject, folder)
            weight.copy_(kept)

    return tampered


@pytest.mark.parametrize("name", FORMATS)
def test_what_does_not_answer_as_the_network_does_is_refused(name, plain, quiet, monkeypatch):
    before = everything(plain)
    monkeypatch.setitem(module.TABLE, name, replace(TABLE[name], write=noisy(TABLE[name].write)))
    with pytest.raises(RunError, match=rf"^{name}: what was written does not answer .*largest difference"):
        run_export(plain, ExportFlags(format=(name,)), quiet)
    assert everything(plain) == before
    assert not (plain / "export").exists()


def test_nan_is_no_agreement(tiny, quiet, monkeypatch):
    def nan(subject, folder):
        return lambda images: torch.full((len(images), 3), float("nan"))

    monkeypatch.setitem(module.TABLE, "safetensors", replace(TABLE["safetensors"], answers=nan))
    with pytest.raises(RunError, match="largest difference nan"):
        run_export(tiny, ExportFlags(), quiet)


def test_outputs_of_another_shape_are_no_agreement(tiny):
    with pytest.raises(RunError, match=r"outputs have the shape \(4, 1\), not \(4, 3\)"):
        compare(load(tiny), lambda images: torch.zeros(len(images), 1), (4,))


def test_the_difference_is_the_largest_of_all_batches(tiny):
    network, seen = load(tiny), []

    def shifted(images):
        seen.append(len(images))
        return network(images) + (0.5 if len(images) == 1 else 0.25)

    difference = compare(network, shifted, (1, 5))
    assert seen == [1, 5]
    assert difference.largest == pytest.approx(0.5, abs=1e-6)
    assert str(difference).startswith("largest difference 0.5 of outputs up to ")


def test_a_failure_of_the_second_format_leaves_no_first_and_an_earlier_one_untouched(
    plain, quiet, monkeypatch
):
    run_export(plain, ExportFlags(format=("timm",)), quiet)
    before = everything(plain)
    monkeypatch.setitem(module.TABLE, "timm", replace(TABLE["timm"], write=noisy(TABLE["timm"].write)))
    with pytest.raises(RunError, match=r"^timm: what"):
        run_export(plain, ExportFlags(format=TWO, overwrite=True), quiet)
    assert everything(plain) == before
    assert [path.name for path in (plain / "export").iterdir()] == ["timm"]


def test_a_disk_that_is_full_is_one_line(tiny, quiet, monkeypatch):
    def full(subject, folder):
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(module.TABLE, "safetensors", replace(TABLE["safetensors"], write=full))
    with pytest.raises(RunError, match=r"cannot write to .*safetensors \(No space left on device\)"):
        run_export(tiny, ExportFlags(), quiet)
    assert not (tiny / "export").exists()


def test_an_earlier_export_is_replaced_only_when_told(plain, quiet):
    flags = ExportFlags(format=("torchvision",))
    run_export(plain, flags, quiet)
    with pytest.raises(UserError, match="is there already"):
        run_export(plain, flags, quiet)
    run_export(plain, replace(flags, overwrite=True, part="encoder"), quiet)
    weights = torch.load(plain / "export" / "torchvision" / "resnet10.pth", weights_only=True)
    assert "fc.weight" not in weights


def test_nothing_is_written_where_a_later_place_is_taken(plain, tmp_path, quiet):
    (tmp_path / "out" / "timm").mkdir(parents=True)
    (tmp_path / "out" / "timm" / "thesis.tex").touch()
    with pytest.raises(UserError, match=r"thesis\.tex"):
        run_export(plain, ExportFlags(format=TWO, out=tmp_path / "out", overwrite=True), quiet)
    assert sorted(everything(tmp_path / "out")) == ["timm/thesis.tex"]


def test_an_export_never_replaces_what_it_is_made_from(make_model, tmp_path, quiet):
    save_model(make_model(), tmp_path / "run" / "model")
    before = everything(tmp_path)
    for place in ("run/model", "run", "."):
        with pytest.raises(UserError, match="is what is exported, or around it"):
            run_export(tmp_path / "run", ExportFlags(out=tmp_path / place, overwrite=True), quiet)
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    ("change", "name", "words"),
    [
        ({}, "timm", "timm has no ResNet of width 0.0625: use --format safetensors or onnx"),
        (
            {"width": 1, "stem": "imagenet", "hidden": True},
            "torchvision",
            "torchvision has no hidden layer before its classes, as this classifier does: "
            "use --format safetensors or onnx, or --part encoder",
        ),
        (
            {"encoder": "timm:test_convnext", "width": 1},
            "torchvision",
            "torchvision does not have timm:test_convnext: use --format safetensors or timm or onnx",
        ),
    ],
)
def test_what_a_format_cannot_hold_is_said_before_anything_is_written(
    change, name, words, make_network, tmp_path, quiet
):
    save_network(make_network(**change), tmp_path)
    with pytest.raises(UserError) as caught:
        run_export(tmp_path, ExportFlags(format=("safetensors", name)), quiet)
    assert str(caught.value) == words
    assert not (tmp_path / "export").exists()


def test_a_classifier_that_is_not_there(make_network, tmp_path, quiet):
    save_network(make_network(classes=()), tmp_path)
    with pytest.raises(UserError, match=r"no classifier here: use --part encoder"):
        run_export(tmp_path, ExportFlags(part="classifier"), quiet)
    with pytest.raises(UserError, match="neither a run nor an exported model"):
        run_export(tmp_path / "nowhere", ExportFlags(), quiet)


def test_a_missing_library_is_said_first(tiny, quiet, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UserError, match=r'pip install "semppl\[onnx\]"'):
        run_export(tiny, ExportFlags(format=("safetensors", "onnx")), quiet)
    assert not (tiny / "export").exists()


def test_a_push_sends_the_verified_folder_with_its_card(plain, console, monkeypatch):
    sent = {}

    class Api:
        def create_repo(self, name, *, private, exist_ok):
            sent["private"] = private
            return f"https://hub.example/{name}"

        def upload_folder(self, *, repo_id, folder_path, commit_message):
            sent["files"] = sorted(everything(folder_path))
            sent["config"] = json.loads((folder_path / "config.json").read_text())
            sent["model"] = timm.create_model(f"local-dir:{folder_path}", pretrained=True)

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: "a token")
    run_export(plain, ExportFlags(format=("timm",), push="ann/pets"), console)
    assert sent["files"] == ["README.md", "config.json", "model.safetensors"]
    assert sent["private"] is True
    assert sent["config"]["label_names"] == ["cat", "dog", "owl"]
    assert said(console)[-1] == "pushed to https://hub.example/ann/pets"
    with pytest.raises(UserError, match="one format"):
        run_export(plain, ExportFlags(format=TWO, push="ann/pets"), console)


@pytest.mark.parametrize("encoder", ["resnet10", "timm:test_vit"])
def test_from_training_to_each_library(encoder, npz, tmp_path):
    """Nothing but the libraries themselves reads what was exported here; a transformer as ONNX: test_onnx."""
    run = RunDirectory(tmp_path / "run")
    net = NetConfig(encoder=encoder, stem="imagenet", head_hidden=16, head_outputs=8)
    config = tiny_config(npz, net=net, views=ViewsConfig(large=2, small=0, large_size=32), epochs=0.7)
    online = pretrain(config, run, console=Console(quiet=True)).online.eval()
    formats = ("safetensors", "timm") + (("torchvision", "onnx") if encoder == "resnet10" else ())
    run_export(run.path, ExportFlags(format=formats), Console(quiet=True))
    x, folder = torch.randn(3, 3, 32, 32), run.path / "export"
    with torch.no_grad():
        expected = online.encoder(x)
        found = {
            "safetensors": semppl.load(folder / "safetensors")(x),
            "timm": timm.create_model(f"local-dir:{folder / 'timm'}", pretrained=True).eval()(x),
        }
        if encoder == "resnet10":
            theirs = torchvision.models.ResNet(BasicBlock, [1, 1, 1, 1])
            theirs.fc = torch.nn.Identity()
            theirs.load_state_dict(torch.load(folder / "torchvision" / "resnet10.pth", weights_only=True))
            found["torchvision"] = theirs.eval()(x)
            session = onnxruntime.InferenceSession(folder / "onnx" / "model.onnx")
            found["onnx"] = torch.from_numpy(session.run(None, {"images": x.numpy()})[0])
    for name, features in found.items():
        assert torch.allclose(features, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max())), name


def test_somebody_elses_readme_stays(tiny, tmp_path, quiet):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "README.md").write_text("mine")
    with pytest.raises(UserError, match=r"holds more than an export \(README.md\)"):
        run_export(tiny, ExportFlags(out=tmp_path / "notes", overwrite=True), quiet)
    assert (tmp_path / "notes" / "README.md").read_text() == "mine"
