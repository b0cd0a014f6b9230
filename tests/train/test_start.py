import io
from dataclasses import replace

import pytest
import torch
from rich.console import Console
from tests.conftest import tiny_config

from semppl.config import NetConfig, from_yaml, to_yaml
from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory
from semppl.resolve import resolved
from semppl.train.build import build_state, normalisation
from semppl.train.checkpoint import write_checkpoint
from semppl.train.start import Start, read_start, start_from_, with_network_of
from semppl.views.preprocessing import Preprocessing

CPU = torch.device("cpu")


def config(**net):
    given = tiny_config("data.npz", net=NetConfig(**{"head_hidden": 16, "head_outputs": 8, **net}))
    return resolved(given, image_size=8, num_images=48, num_classes=3)


def content(stored, *, heads=True):
    state = build_state(stored, 3, CPU).state_dict()
    if not heads:
        state["predictor"] = state["target"] = None
        state["online"] = {key: x for key, x in state["online"].items() if key.startswith("encoder.")}
    return {"format": 1, "config": to_yaml(stored), "state": state}


TINY = {"encoder": "resnet50", "width": 0.25}


def test_nothing_given_is_nothing_done(quiet):
    assert read_start(None) is None
    plain = tiny_config("data.npz")
    assert with_network_of(plain, None) is plain
    start_from_(None, None, quiet)


def test_what_is_left_open_is_as_the_weights_have_it(tmp_path):
    stored = config(**TINY, sk=True, padding="same", stem="imagenet")
    start = Start(tmp_path, content(stored))
    found = with_network_of(tiny_config("data.npz", net=NetConfig(head_outputs=8)), start)
    for name in ("encoder", "width", "stem", "padding", "sk", "head_hidden"):
        assert getattr(found.net, name) == getattr(stored.net, name), name


@pytest.mark.parametrize(
    ("name", "mine"), [("encoder", "resnet18"), ("width", 0.5), ("stem", "small"), ("padding", "symmetric")]
)
def test_what_the_user_wrote_must_agree(tmp_path, name, mine):
    start = Start(tmp_path / "weights", content(config(**TINY, padding="same", stem="imagenet")))
    with pytest.raises(UserError, match=rf"--net.{name} is {mine}, and the weights of .*weights need"):
        with_network_of(tiny_config("data.npz", net=NetConfig(**{name: mine})), start)


def test_weights_from_before_there_was_a_choice_have_symmetric_padding(tmp_path):
    stored = content(config(**TINY))
    stored["config"] = stored["config"].replace("padding: symmetric", "padding: null")
    start = Start(tmp_path, stored)
    assert with_network_of(tiny_config("data.npz", net=NetConfig()), start).net.padding == "symmetric"
    with pytest.raises(UserError, match=r"--net.padding is same, and the weights of .* need symmetric"):
        with_network_of(tiny_config("data.npz", net=NetConfig(padding="same")), start)


def test_an_encoder_alone_leaves_the_heads_as_they_were_drawn(tmp_path):
    stored = config(encoder="resnet10", width=0.0625)
    run = RunDirectory(tmp_path / "run")
    run.checkpoints.mkdir(parents=True)
    source = content(stored, heads=False)
    write_checkpoint(run, source["state"], {"config": source["config"]})
    start = read_start(run.path)
    state = build_state(replace(stored, seed=5), 3, CPU)
    drawn = {key: x.clone() for key, x in state.online.state_dict().items()}
    words = io.StringIO()
    start_from_(state, start, Console(file=words, width=200))
    assert f"{run.path} holds no projector and no predictor: trained anew" in words.getvalue()
    for online in (state.online, state.target.module):
        for key, x in online.state_dict().items():
            expected = source["state"]["online"].get(key, drawn[key])
            assert torch.equal(x, expected), key


def test_a_damaged_newest_checkpoint_of_a_run_is_named_and_the_one_before_it_used(tmp_path):
    stored = config(encoder="resnet10", width=0.0625)
    run = RunDirectory(tmp_path / "run")
    run.checkpoints.mkdir(parents=True)
    source = content(stored)
    for step in (1, 2):
        newest = write_checkpoint(run, source["state"] | {"step": step}, {"config": source["config"]})
    newest.write_bytes(newest.read_bytes()[:-1])
    start = read_start(run.path)
    assert start.content["state"]["step"] == 1
    words = io.StringIO()
    start_from_(build_state(stored, 3, CPU), start, Console(file=words, width=40))
    (line,) = words.getvalue().splitlines()
    assert line == f"{newest} is damaged (File is not a zip file): going on with step-00000001.ckpt"
    with pytest.raises(UserError, match="is damaged"):
        read_start(newest)


def test_what_does_not_fit_is_one_line(tmp_path, quiet):
    start = Start(tmp_path / "x", content(config(encoder="resnet10", width=0.0625)))
    with pytest.raises(UserError, match="x: its weights do not fit this network: size mismatch"):
        start_from_(build_state(config(encoder="resnet10", width=0.125), 3, CPU), start, quiet)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no checkpoint to start from"):
        read_start(tmp_path / "empty")
    with pytest.raises(UserError, match="no such checkpoint"):
        read_start(tmp_path / "nothing.ckpt")


def test_images_are_normalised_as_the_weights_expect(tmp_path):
    stored = content(config(encoder="resnet10", width=0.0625))
    how = Preprocessing(224, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), "deepmind")
    start = Start(tmp_path, stored | {"preprocessing": how.as_json()})
    found = with_network_of(tiny_config("data.npz", net=NetConfig()), start)
    assert (found.net.mean, found.net.std) == (how.mean, how.std)
    assert torch.equal(normalisation(found, None)[0], torch.tensor(how.mean))
    own = NetConfig(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    assert with_network_of(tiny_config("data.npz", net=own), start).net.mean == (0, 0, 0)
    assert from_yaml(to_yaml(found)) == found, "a run that goes on compares them"


def test_heads_are_those_of_the_weights_where_there_are_any(tmp_path):
    stored = config(encoder="resnet10", width=0.0625)
    start = Start(tmp_path, content(stored))
    net = with_network_of(tiny_config("data.npz", net=NetConfig()), start).net
    assert (net.head_hidden, net.head_outputs) == (16, 8)
    with pytest.raises(UserError, match=r"--net.head-outputs is 4, and the weights of .* need 8"):
        with_network_of(tiny_config("data.npz", net=NetConfig(head_outputs=4)), start)
    bare = Start(tmp_path, content(stored, heads=False))
    assert with_network_of(tiny_config("data.npz", net=NetConfig(head_outputs=4)), bare).net.head_outputs == 4


def test_selective_kernels_that_the_weights_have_not(tmp_path):
    start = Start(tmp_path, content(config(**TINY)))
    with pytest.raises(UserError, match=r"--net.sk is True, and the weights of .* need False"):
        with_network_of(tiny_config("data.npz", net=NetConfig(sk=True)), start)
