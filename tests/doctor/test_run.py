import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console
from tests.conftest import tiny_config

import semppl.doctor.run as module
from semppl.cli import main
from semppl.core.errors import RunError, UserError
from semppl.doctor.run import run_doctor


@pytest.fixture
def console():
    return Console(width=100, record=True)


def test_a_machine_that_can_train_is_told_so_and_everything_is_kept(npz, flags, tmp_path, console):
    flags = replace(flags, out=tmp_path / "doctor.json")
    result = run_doctor(tiny_config(npz, device="cpu"), flags, "semppl doctor x", console)
    stored = json.loads(flags.out.read_text())
    assert stored == json.loads(json.dumps(result))
    assert stored["command"] == "semppl doctor x"
    assert stored["machine"]["cores"] >= 1
    assert stored["projection"][0]["devices"] == 1
    text = console.export_text()
    for words in ("this machine", "48 images", "largest safe batch", "training can run here", "written:"):
        assert words in text


def test_a_machine_that_cannot_is_told_why_and_tries_nothing(
    npz, flags, tmp_path, console, machine, monkeypatch
):
    broken = replace(machine, torchvision_problem="no nms")
    monkeypatch.setattr(module, "look_around", lambda device, place: broken)
    flags = replace(flags, out=tmp_path / "doctor.json")
    with pytest.raises(RunError, match="nothing can be trained here before that is solved"):
        run_doctor(tiny_config(npz), flags, "x", console, examine=lambda *_: pytest.fail("tried"))
    assert "! torchvision does not load" in console.export_text()
    assert json.loads(flags.out.read_text())["problems"][0]["fatal"]


def test_what_is_known_of_a_machine_is_kept_if_the_rest_fails(npz, flags, tmp_path, console):
    def fails(*_):
        raise KeyboardInterrupt

    flags = replace(flags, out=tmp_path / "doctor.json")
    with pytest.raises(KeyboardInterrupt):
        run_doctor(tiny_config(npz), flags, "x", console, examine=fails)
    assert "machine" in json.loads(flags.out.read_text())


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"device": "abacus"}, "unknown device"), ({"device": "cpu", "precision": "bf16"}, "bf16 is for GPUs")],
)
def test_what_cannot_be_is_refused_before_anything_is_written(npz, flags, tmp_path, console, changes, words):
    flags = replace(flags, out=tmp_path / "doctor.json")
    with pytest.raises(UserError, match=words):
        run_doctor(tiny_config(npz, **changes), flags, "x", console)
    assert not flags.out.exists()
    assert console.export_text() == ""


def test_a_place_that_cannot_be_written_to_is_named(npz, flags, tmp_path, console, monkeypatch):
    def full(path, text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_text", full)
    with pytest.raises(UserError, match=r"doctor\.json: No space left on device"):
        run_doctor(tiny_config(npz), replace(flags, out=tmp_path / "doctor.json"), "x", console)


TINY = ["--batch-size", "16", "--views.large", "2", "--views.small", "0", "--net.encoder", "resnet10"]
TINY += ["--net.width", "0.0625", "--net.head-hidden", "16", "--net.head-outputs", "8", "--device", "cpu"]
TINY += ["--steps", "2", "--seconds", "0.5"]


def call(*arguments):
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code


def test_from_the_command_line(npz, tmp_path, capsys):
    out = tmp_path / "doctor.json"
    assert call("doctor", npz, *TINY, "--out", out) == 0
    assert "training can run here" in capsys.readouterr().out
    assert json.loads(out.read_text())["command"].startswith(f"semppl doctor {npz} --batch-size 16")
    assert call("doctor", npz, *TINY, "--out", out) == 2
    assert "give --overwrite" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["doctor", "nowhere.npz"], "nowhere.npz: no such file"),
        (["doctor", "--device", "cpu", "digits"], "say which images before any flag: semppl doctor DATA"),
        (["doctor", "digits", "--steps", "0"], "--steps is 0"),
        (["doctor", "digits", "--preset", "quick"], "unknown preset 'quick'"),
        (["doctor", "digits", "--labels-per-class", "5", "--batch-size", "5000"], "larger than the data"),
    ],
)
def test_bad_input_is_one_line(arguments, words, capsys):
    assert call(*arguments) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


def test_a_key_ends_it_cleanly(npz, capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "import_module", lambda name: SimpleNamespace(examine=interrupted))
    assert call("doctor", npz, *TINY) == 130
    assert capsys.readouterr().err == "semppl: interrupted\n"
