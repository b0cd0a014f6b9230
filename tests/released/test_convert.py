import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.released.layout import content, parts
from tests.released.reference import Reference, plain, selective

from semppl.core.errors import UserError
from semppl.nets.encoder import ENCODERS, create_encoder
from semppl.nets.heads import create_head
from semppl.nets.resnet import Bottleneck
from semppl.released.convert import convert
from semppl.released.unpickle import read_pickle

BLOCK = "res_net50/~/block_group_1/~/block_2/~/"


def build(found, padding="same"):
    """Our encoder with those weights, without drawing others first."""
    with torch.device("meta"):
        net = create_encoder(found.encoder, width=found.width, sk=found.sk, padding=padding)
    net.load_state_dict(found.encoder_state, strict=True, assign=True)
    return net.eval()


@torch.no_grad()
def ours(net, images_BHWC):
    return net(torch.from_numpy(images_BHWC.transpose(0, 3, 1, 2).astype(np.float32))).numpy()


def distance(found, expected):
    """Of the largest number, so that a feature near zero is no trouble."""
    assert found.shape == expected.shape
    assert expected.std() > 0.1
    return np.abs(found - expected).max() / np.abs(expected).max()


class Written:
    """A checkpoint that Haiku wrote, and what Haiku says about some images."""

    def __init__(self, name, folder):
        program = Path(__file__).with_name("haiku_nets.py")
        # it computes once and for no longer than it would optimise
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
        subprocess.run([sys.executable, str(program), name, str(folder)], check=True, env=environment)
        path = folder / f"{name}.pkl"
        self.content = read_pickle(path)
        path.unlink()
        self.converted = convert(self.content, path.name)
        self.net = build(self.converted)
        with np.load(folder / f"{name}.npz") as outputs:
            self.outputs = dict(outputs)

    def check(self, size):
        images, expected = self.outputs[f"images_{size}"], self.outputs[f"output_0_{size}"]
        assert distance(ours(self.net, images), expected) < 1e-5


@pytest.fixture(scope="module")
def resnet50(tmp_path_factory):
    """Two replicas, arrays of jax, all heads."""
    return Written("resnet50", tmp_path_factory.mktemp("resnet50"))


@pytest.fixture(scope="module")
def sk(tmp_path_factory):
    """One replica, arrays of numpy; names of selective kernels that only `haiku_nets` knows."""
    return Written("sk", tmp_path_factory.mktemp("sk"))


@pytest.mark.parametrize("size", [96, 65])
def test_resnet50_has_the_features_of_haiku(resnet50, size):
    found = resnet50.converted
    assert (found.encoder, found.width, found.sk, found.step) == ("resnet50", 1, False, 1234)
    resnet50.check(size)


def test_heads_have_the_outputs_of_haiku(resnet50):
    found, outputs = resnet50.converted, [resnet50.outputs[f"output_{i}_96"] for i in range(4)]
    projector, predictor = create_head(2048, 48, 24).eval(), create_head(24, 48, 24).eval()
    projector.load_state_dict(found.projector_state)
    predictor.load_state_dict(found.predictor_state)
    features, projection = torch.from_numpy(outputs[0]), torch.from_numpy(outputs[1])
    with torch.no_grad():
        assert distance(projector(features).numpy(), outputs[1]) < 1e-5
        assert distance(predictor(projection).numpy(), outputs[2]) < 1e-5
    weight, bias = found.classifier
    assert distance((features @ weight.T + bias).numpy(), outputs[3]) < 1e-5


def test_symmetric_padding_would_not_do(resnet50):
    """The distance that is asked for tells networks apart that differ by half a pixel."""
    images, expected = resnet50.outputs["images_96"], resnet50.outputs["output_0_96"]
    assert distance(ours(build(resnet50.converted, "symmetric"), images), expected) > 0.01


@pytest.mark.parametrize("size", [96, 65])
def test_selective_kernels_have_the_features_of_haiku(sk, size):
    found = sk.converted
    assert (found.encoder, found.width, found.sk, found.step) == ("resnet50", 1, True, 1234)
    assert found.projector_state is found.predictor_state is found.classifier is None
    assert found.remark == (
        "by their names, …/conv_1/path_1/grouped is taken for the path without dilation, "
        "…/conv_1/path_2/grouped for the dilated one"
    )
    sk.check(size)


def test_swapped_paths_have_other_features(sk):
    params, state = parts(sk.content)
    swapped = {"experiment_state": {"online_params": swap(params), "online_state": swap(state)}, "step": 1}
    net = build(convert(swapped, "swapped"))
    assert distance(ours(net, sk.outputs["images_65"]), sk.outputs["output_0_65"]) > 0.01


def swap(leaves):
    """The other dilation for each path."""
    other = {"path_1": "path_2", "path_2": "path_1"}
    return {"/".join(other.get(part, part) for part in module.split("/")): x for module, x in leaves.items()}


@pytest.mark.parametrize("size", [(40, 33), (65, 50)])
def test_both_against_numpy(resnet50, sk, size):
    image = np.random.default_rng(1).standard_normal((*size, 3))
    for written, prefix, stem, middle in (
        (resnet50, "res_net50/~/", "initial_conv", plain),
        (sk, "sk_res_net50/", "initial_conv_1", selective),
    ):
        reference = Reference(*parts(written.content), prefix)
        expected = reference.features(image, middle, stem, "block_group_{}/~/block_{}/~/")
        assert distance(ours(written.net, image[None])[0], expected) < 1e-5


def test_more_than_ten_blocks_and_twice_the_width_have_the_features_of_haiku(tmp_path, monkeypatch):
    """Blocks count as numbers do, not as words: 2 is before 10."""
    monkeypatch.setitem(ENCODERS, "resnet200", (Bottleneck, (1, 12, 1, 1)))
    written = Written("resnet200", tmp_path)
    found = written.converted
    assert (found.encoder, found.width, found.sk) == ("resnet200", 2, False)
    written.check(65)


@pytest.mark.parametrize(
    ("encoder", "width", "sk"),
    [
        ("resnet50", 2, False),
        ("resnet101", 1, False),
        ("resnet152", 1, False),
        ("resnet200", 1, False),
        ("resnet50", 2, True),
        ("resnet200", 1, True),
    ],
)
def test_depth_and_width_are_found(encoder, width, sk):
    found = convert(content(encoder=encoder, width=width, sk=sk), "file.pkl")
    assert (found.encoder, found.width, found.sk, found.step) == (encoder, width, sk, 7)
    net = build(found)
    assert net.num_features == 2048 * width
    assert all(x.is_contiguous() for x in found.encoder_state.values())
    assert all(int(x) == 7 for key, x in found.encoder_state.items() if "num_batches" in key)
    assert found.remark.count("…/sk/conv_0 is taken for the path without dilation, …/sk/conv_1 for") == sk
    assert bool(found.remark) == sk


def renamed(checkpoint, rename):
    params, state = ({rename(module): x for module, x in part.items()} for part in parts(checkpoint))
    return {"experiment_state": {"online_params": params, "online_state": state}, "step": 7}


@pytest.mark.parametrize(
    "rename",
    [
        lambda module: module.replace("/~/", "/"),
        lambda module: module.replace("res_net50/~/", ""),
        lambda module: module.replace("res_net50", "res_net_torso"),
        lambda module: module.replace("res_net50", "byol/~/encoder"),
        lambda module: module.replace("initial_conv", "initial_conv_1"),
        lambda module: module.replace("initial_batchnorm", "initial_batchnorm_1"),
        lambda module: module.replace("projector/", "projector/~/"),
    ],
)
def test_names_may_differ(rename):
    found = convert(renamed(content(replicas=0), rename), "file.pkl")
    assert found.encoder == "resnet50"
    build(found)


def test_numbers_go_where_they_belong():
    """Each tensor has a number of its own in each place, and the average is taken, not the hidden value."""
    checkpoint = content(replicas=0)
    params, state = parts(checkpoint)
    params[f"{BLOCK}conv_1"]["w"] = np.arange(9 * 128 * 128, dtype=np.float32).reshape(3, 3, 128, 128)
    params["projector/linear"]["w"] = np.arange(2048 * 16, dtype=np.float32).reshape(2048, 16)
    for number, (part, module, leaf) in enumerate(
        [
            (params, f"{BLOCK}batchnorm_1", "scale"),
            (params, f"{BLOCK}batchnorm_1", "offset"),
            (state, f"{BLOCK}batchnorm_1/~/mean_ema", "average"),
            (state, f"{BLOCK}batchnorm_1/~/var_ema", "average"),
        ]
    ):
        part[module][leaf] = (np.arange(128) + 1000 * number).reshape(1, 1, 1, 128)
    found = convert(checkpoint, "file.pkl")
    encoder = found.encoder_state
    kernel = params[f"{BLOCK}conv_1"]["w"]
    for out, into, row, column in [(0, 0, 0, 0), (5, 7, 2, 1), (127, 3, 0, 2)]:
        assert encoder["layer2.2.conv2.weight"][out, into, row, column] == kernel[row, column, into, out]
    for number, key in enumerate(("weight", "bias", "running_mean", "running_var")):
        assert encoder[f"layer2.2.bn2.{key}"].tolist() == [1000 * number + i for i in range(128)]
    assert found.projector_state["0.weight"][3, 5] == params["projector/linear"]["w"][5, 3]
    assert encoder["layer2.2.bn2.num_batches_tracked"] == 7


def test_heads_may_be_absent():
    found = convert(content(heads=False), "file.pkl")
    assert found.projector_state is found.predictor_state is found.classifier is None


def refused(checkpoint, *words):
    with pytest.raises(UserError) as caught:
        convert(checkpoint, "file.pkl")
    message = str(caught.value)
    assert message.startswith("file.pkl: ")
    assert message.isprintable()
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("part", "module", "leaf", "named"),
    [
        (0, f"{BLOCK}conv_0", "w", "res_net50/block_group_1/block_2/conv_0 w"),
        (0, f"{BLOCK}conv_1", "w", "res_net50/block_group_1/block_2/conv_1 w"),
        (0, "res_net50/~/initial_batchnorm", "offset", "res_net50/initial_batchnorm offset"),
        (1, f"{BLOCK}batchnorm_2/~/var_ema", "average", "block_2/batchnorm_2/var_ema average"),
        (
            0,
            "res_net50/~/block_group_3/~/block_0/~/shortcut_conv",
            "w",
            "block_group_3/block_0/shortcut_conv w",
        ),
        (0, "projector/linear", "b", "projector/linear b"),
        (0, "projector/linear_1", "w", "projector/linear_1 w"),
        (0, "predictor/batch_norm", "scale", "predictor/batch_norm scale"),
        (0, "classifier", "b", "classifier b"),
        (0, "classifier", "w", "classifier w"),
    ],
)
def test_a_missing_tensor_is_named(part, module, leaf, named):
    checkpoint = content()
    del parts(checkpoint)[part][module][leaf]
    refused(checkpoint, f"{named} is missing")


@pytest.mark.parametrize(
    ("module", "leaf", "shape", "expected"),
    [
        (f"{BLOCK}conv_0", "w", (1, 1, 512, 64), "(1, 1, 512, 128)"),
        (f"{BLOCK}conv_1", "w", (3, 3, 64, 128), "(3, 3, 128, 128)"),
        (f"{BLOCK}conv_1", "w", (5, 5, 128, 128), "(3, 3, 128, 128)"),
        (f"{BLOCK}batchnorm_0", "scale", (1, 1, 1, 64), "(1, 1, 1, 128)"),
        (f"{BLOCK}batchnorm_0", "scale", (1, 2, 1, 64), "(1, 1, 1, 128)"),
        ("projector/linear", "w", (1024, 16), "(2048, 16)"),
        ("projector/linear", "b", (8,), "(16,)"),
        ("predictor/linear", "w", (16, 16), "(8, 16)"),
        ("classifier", "w", (1024, 5), "(2048, 5)"),
    ],
)
def test_a_tensor_of_another_shape_is_named_with_both(module, leaf, shape, expected):
    checkpoint = content()
    parts(checkpoint)[0][module][leaf] = np.zeros((1, *shape), np.float32)
    refused(checkpoint, f"{module.replace('/~/', '/')} {leaf} is {shape}, expected {expected}")


def test_surplus_tensors_are_named():
    one = np.zeros((1, 2, 3), np.float32)
    for part, module, leaf in (
        (0, f"{BLOCK}conv_3", "w"),
        (0, f"{BLOCK}conv_1", "b"),
        (0, "res_net50/~/logits", "w"),
        (0, "other/linear", "w"),
        (1, "res_net50/~/moving", "average"),
        (0, "res_net50/~/block_group_4/~/block_0/~/conv_0", "w"),
    ):
        checkpoint = content()
        parts(checkpoint)[part].setdefault(module, {})[leaf] = one[:, 0] if leaf == "b" else one
        refused(checkpoint, "no place for 1 tensor", f"{module.replace('/~/', '/')} {leaf}")


def test_an_average_without_its_value_is_not_passed_over():
    checkpoint = content()
    module = f"{BLOCK}batchnorm_1/~/mean_ema"
    parts(checkpoint)[1][f"{BLOCK}extra/~/mean_ema"] = {"hidden": parts(checkpoint)[1][module]["hidden"]}
    refused(checkpoint, "no place for 1 tensor", "extra/mean_ema hidden")


def test_values_that_are_not_finite_are_named():
    checkpoint = content(replicas=0)
    bad = np.zeros((3, 3, 128, 128), np.float32)
    bad[1, 2, 3, 4] = np.nan
    parts(checkpoint)[0][f"{BLOCK}conv_1"]["w"] = bad
    refused(checkpoint, f"{BLOCK}conv_1 w has values that are not finite")


def test_the_same_name_twice():
    checkpoint = content()
    params, _ = parts(checkpoint)
    params["res_net50/initial_conv"] = params["res_net50/~/initial_conv"]
    refused(checkpoint, "res_net50/initial_conv w is there twice")
    checkpoint = content()
    params, _ = parts(checkpoint)
    params["res_net50/~/initial_conv_1"] = params["res_net50/~/initial_conv"]
    refused(checkpoint, "res_net50/initial_conv w is there twice")


def test_what_is_no_encoder_of_the_paper():
    refused(
        {"experiment_state": {"online_params": {}, "online_state": {}}, "step": 1}, "0 tensors are called"
    )
    checkpoint = content()
    params, _ = parts(checkpoint)
    params["target/initial_conv"] = params["res_net50/~/initial_conv"]
    refused(checkpoint, "2 tensors are called initial_conv w")
    for shape in ((7, 7, 3, 48), (3, 3, 3, 64), (7, 7, 1, 64)):
        checkpoint = content()
        parts(checkpoint)[0]["res_net50/~/initial_conv"]["w"] = np.zeros((1, *shape), np.float32)
        refused(checkpoint, f"res_net50/initial_conv w is {shape}, expected (7, 7, 3, 64·width)")
    refused(
        fewer(content(), "block_group_2/~/block_5"), "groups of (3, 4, 5, 3) blocks", "resnet50 (3, 4, 6, 3)"
    )
    refused(fewer(content(), "block_group_3/"), "groups of (3, 4, 6) blocks")
    refused(fewer(content(), "block_group_2/~/block_3"), "block_group_2/block_3/conv_0 w is missing")


def fewer(checkpoint, word):
    params, state = ({k: v for k, v in part.items() if word not in k} for part in parts(checkpoint))
    return {"experiment_state": {"online_params": params, "online_state": state}, "step": 7}


def test_selective_kernels_that_do_not_fit_are_named():
    block = "res_net50/~/block_group_1/~/block_2/~/"
    checkpoint = content(sk=True)
    del parts(checkpoint)[0][f"{block}sk/~/conv_1"]
    refused(checkpoint, "block_group_1/block_2/", "no selective kernels", "sk/conv_0 (3, 3, 8, 256)")
    checkpoint = content(sk=True)
    parts(checkpoint)[0][f"{block}sk/~/up"]["b"] = np.zeros((1, 512), np.float32)
    refused(checkpoint, "no place for 1 tensor", "block_2/sk/up b (512,)")
    checkpoint = content(sk=True)
    parts(checkpoint)[0][f"{block}conv_0"]["w"] = np.zeros((1, 1, 1, 512, 128), np.float32)
    refused(checkpoint, "block_2/conv_0 w is (1, 1, 512, 128), expected (1, 1, 512, 256)")


EVIL = "evil\n\x1b[31mname"
SHOWN = r"evil\n\x1b[31mname"


def evil(**options):
    """An encoder of that name, whose tensors can be changed."""
    return renamed(content(replicas=0, **options), lambda module: module.replace("res_net50", EVIL))


def test_names_stay_on_their_line():
    checkpoint = evil()
    del parts(checkpoint)[0][f"{EVIL}/~/initial_batchnorm"]["offset"]
    refused(checkpoint, f"{SHOWN}/initial_batchnorm offset is missing")
    checkpoint = evil()
    parts(checkpoint)[0][f"{EVIL}/~/initial_conv"]["w"] = np.zeros((3, 3, 3, 64), np.float32)
    refused(checkpoint, f"{SHOWN}/initial_conv w is (3, 3, 3, 64)")
    checkpoint = evil()
    parts(checkpoint)[0][f"{EVIL}/initial_conv"] = parts(checkpoint)[0][f"{EVIL}/~/initial_conv"]
    refused(checkpoint, f"{SHOWN}/initial_conv w is there twice")
    checkpoint = content(replicas=0)
    parts(checkpoint)[0][EVIL] = {EVIL: np.zeros(3, np.float32)}
    refused(checkpoint, f"no place for 1 tensor: {SHOWN} {SHOWN} (3,)")


def test_names_of_selective_kernels_stay_on_their_line():
    found = convert(renamed(evil(sk=True), lambda module: module.replace("sk/~/", f"{EVIL}/~/")), "file.pkl")
    assert found.remark.isprintable()
    assert f"…/{SHOWN}/conv_0 is taken for the path without dilation" in found.remark
    checkpoint = evil(sk=True)
    del parts(checkpoint)[0][f"{EVIL}/~/block_group_0/~/block_0/~/sk/~/conv_1"]
    refused(checkpoint, f"{SHOWN}/block_group_0/block_0/: no selective kernels", f"{SHOWN}/block_group_0")
