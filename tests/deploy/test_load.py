import pytest
import torch
from rich.console import Console
from tests.conftest import tiny_config
from tests.train.test_checkpoint import hostile_files

import semppl
from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory
from semppl.deploy.load import load
from semppl.deploy.model import CONFIG, WEIGHTS, save_model, save_network
from semppl.evaluate.features import extract_features
from semppl.train.checkpoint import load_checkpoint, newest_checkpoint
from semppl.train.prepare import load_for
from semppl.train.pretrain import pretrain


@pytest.fixture
def run(npz, tmp_path):
    run = RunDirectory(tmp_path / "run")
    pretrain(tiny_config(npz), run, console=Console(quiet=True))
    return run


def test_it_is_a_name_of_the_package():
    assert semppl.load is load
    with pytest.raises(AttributeError, match="'semppl' has no attribute 'lode'"):
        semppl.lode  # noqa: B018


def test_a_run_gives_its_encoder_and_how_it_saw_images(run, npz):
    network = load(run.path)
    assert network.head is None
    assert network.classes == ()
    stored = load_checkpoint(newest_checkpoint(run))["state"]["online"]
    mine = network.encoder.state_dict()
    assert all(torch.equal(mine[name], stored[f"encoder.{name}"]) for name in mine)
    dataset = load_for(tiny_config(npz), torch.device("cpu"))
    mean_3, std_3 = dataset.statistics()
    expected = extract_features(network.encoder, dataset.images[:5], size=8, mean_3=mean_3, std_3=std_3)
    with torch.no_grad():
        found = network(torch.stack([network.preprocess(image) for image in dataset.images[:5]]))
    assert torch.allclose(found, expected, atol=1e-5)


def test_a_checkpoint_from_before_statistics_were_kept_takes_them_from_its_images(run):
    expected = load(run.path).preprocessing
    file = newest_checkpoint(run)
    content = load_checkpoint(file)
    del content["preprocessing"]
    torch.save(content, file)
    assert load(run.path).preprocessing == expected


def test_a_model_beats_the_checkpoint_beside_it(run, make_model, make_network):
    save_model(make_model(), run.model)
    assert load(run.path).classes == ("cat", "dog", "owl")
    assert load(run.model).classes == ("cat", "dog", "owl")
    save_network(make_network(classes=()), run.path / "alone")
    assert load(str(run.path / "alone")).head is None


def test_what_cannot_be_read_is_one_line(run, tmp_path):
    with pytest.raises(UserError, match="neither a run nor an exported model"):
        load(tmp_path / "nothing")
    file = newest_checkpoint(run)
    content = load_checkpoint(file)
    del content["state"]["online"]["encoder.conv1.weight"]
    torch.save(content, file)
    with pytest.raises(UserError, match="its weights do not fit the network of"):
        load(run.path)
    for each in run.checkpoints.glob("step*"):
        each.unlink()
    with pytest.raises(UserError, match="no checkpoint yet"):
        load(run.path)


def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_it_used(run, capsys):
    newest = newest_checkpoint(run)
    newest.write_bytes(newest.read_bytes()[:-1])
    said = []
    network = load(run.path, say=said.append)
    old = run.checkpoints / "step-00000003.ckpt"
    stored = load_checkpoint(old)["state"]["online"]
    assert torch.equal(network.encoder.state_dict()["conv1.weight"], stored["encoder.conv1.weight"])
    line = f"{newest} is damaged (File is not a zip file): going on with {old.name}"
    assert said == [line]
    load(run.path)
    assert capsys.readouterr() == ("", f"{line}\n")


def test_nothing_of_a_run_or_of_an_exported_model_is_executed(run, make_network, tmp_path):
    mark = tmp_path / "executed"
    model = tmp_path / "model"
    save_network(make_network(), model)
    for file in hostile_files(tmp_path, mark):
        bomb = file.read_bytes()
        for place, opened in ((newest_checkpoint(run), run.path), (model / WEIGHTS, model)):
            sound = place.read_bytes()
            for each in run.checkpoints.glob("step*") if opened is run.path else [place]:
                each.write_bytes(bomb)
            with pytest.raises(UserError):
                load(opened)
            place.write_bytes(sound)
    (model / CONFIG).write_bytes(bomb)
    with pytest.raises(UserError):
        load(model)
    assert not mark.exists()


def test_the_device_is_the_one_asked_for(make_network, tmp_path):
    save_network(make_network(), tmp_path)
    assert load(tmp_path, torch.device("meta")).mean_3.device.type == "meta"
    assert load(tmp_path, "auto").mean_3.device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(UserError, match="unknown device 'gpu'"):
        load(tmp_path, "gpu")
