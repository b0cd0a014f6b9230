"""A released checkpoint as weights of our networks, number by number.

What is expected follows from our own network of that depth and width: each of its tensors has a place in the
file, each tensor of the file a place in it, and their shapes agree; anything else is refused by name. Names
are compared without the `~` by which Haiku marks constructors, and the encoder's class may have any name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from semppl.core.counted import counted
from semppl.core.errors import UserError
from semppl.nets.encoder import ENCODERS, create_encoder
from semppl.nets.heads import create_head
from semppl.nets.resnet import Bottleneck
from semppl.released.selective import match_kernels
from semppl.released.standins import line
from semppl.released.tree import Tree, read_tree

_Place = tuple[str, str]  # module and leaf
_Tensors = Mapping[_Place, NDArray[np.float32]]
_Modules = dict[str, tuple[str, ...]]  # those of the file for each layer of ours
_Parts = dict[str, tuple[nn.Module, _Modules]]

_STEM: Final = {"conv1": "initial_conv", "bn1": "initial_batchnorm"}
_OUTER: Final = {
    "conv1": "conv_0",
    "bn1": "batchnorm_0",
    "conv3": "conv_2",
    "bn3": "batchnorm_2",
    "downsample.0": "shortcut_conv",
    "downsample.1": "shortcut_batchnorm",
}
_BLOCK: Final = {**_OUTER, "conv2": "conv_1", "bn2": "batchnorm_1"}
_HEAD: Final = {"0": "linear", "1": "batch_norm", "3": "linear_1"}
_AVERAGES: Final = {"running_mean": "mean_ema", "running_var": "var_ema"}


@final
@dataclass(frozen=True)
class Converted:
    """An encoder with TensorFlow's padding, and what came with it."""

    encoder: str
    width: int
    sk: bool
    encoder_state: dict[str, Tensor]
    """Of `create_encoder(encoder, width=width, sk=sk, padding="same")`."""
    projector_state: dict[str, Tensor] | None
    """Of `create_head`."""
    predictor_state: dict[str, Tensor] | None
    classifier: tuple[Tensor, Tensor] | None
    """Weight [Y,F] and bias [Y]."""
    step: int
    """Updates of the weights; norms say that they have tracked as many batches."""
    remark: str = ""
    """What was decided by names alone, for a person to check; empty where nothing was."""


def convert(content: object, name: str) -> Converted:
    """Weights of our networks from what `read_pickle` read; `name` is the file's, for messages."""
    tree = read_tree(content, name)
    tensors = _by_place(tree, name)
    prefix, width = _stem(tensors, name)
    encoder, sk = _depth(tensors, prefix, name)
    with torch.device("meta"):
        net = create_encoder(encoder, width=width, sk=sk, padding="same")
        parts: _Parts = {"encoder": (net, _encoder_modules(net, tensors, prefix, name))}
        parts |= _heads(tensors, net.num_features, name)
    states: dict[str, dict[str, Tensor]] = {}
    used: set[_Place] = set()
    for part, (module, names) in parts.items():
        states[part], places = _state(module, names, tensors, tree.step, name)
        used |= places
    if surplus := sorted(tensors.keys() - used):
        shown = ", ".join(f"{_shown(place)} {tensors[place].shape}" for place in surplus[:4])
        raise UserError(f"{name}: {encoder} has no place for {counted(len(surplus), 'tensor')}: {shown}")
    probe = states.get("classifier")
    return Converted(
        encoder=encoder,
        width=width,
        sk=sk,
        encoder_state=states["encoder"],
        projector_state=states.get("projector"),
        predictor_state=states.get("predictor"),
        classifier=(probe["weight"], probe["bias"]) if probe else None,
        step=tree.step,
        remark=_remark(parts["encoder"][1], prefix) if sk else "",
    )


def _remark(modules: _Modules, prefix: str) -> str:
    """Shapes do not tell a dilated kernel from another; the first block stands for all."""
    block = "layer1.0."
    plain, dilated = (
        line(modules[f"{block}conv2.paths.{i}.conv"][0].removeprefix(_start(block, prefix))) for i in (0, 1)
    )
    return (
        f"by their names, …/{plain} is taken for the path without dilation, …/{dilated} for the dilated one"
    )


def _shown(place: _Place) -> str:
    return line(" ".join(place))


def _by_place(tree: Tree, name: str) -> _Tensors:
    """Of a running average its debiased value alone; the others are how Haiku gets there."""
    tensors: dict[_Place, NDArray[np.float32]] = {}
    for spelled, leaves in [*tree.params.items(), *tree.state.items()]:
        module = "/".join(part for part in spelled.split("/") if part != "~")
        module = re.sub(r"(?<![^/])(initial_conv|initial_batchnorm)_1(?![^/])", r"\1", module)
        passed_over = ("hidden", "counter") if "average" in leaves else ()
        for leaf, tensor in leaves.items():
            if (module, leaf) in tensors:
                raise UserError(f"{name}: {_shown((module, leaf))} is there twice")
            if leaf not in passed_over:
                tensors[module, leaf] = tensor
    return tensors


def _stem(tensors: _Tensors, name: str) -> tuple[str, int]:
    """What stands before each module of the encoder, and the encoder's width."""
    own = _STEM["conv1"]
    stems = [module for module, leaf in tensors if leaf == "w" and f"/{module}".endswith(f"/{own}")]
    if len(stems) != 1:
        raise UserError(f"{name}: {len(stems)} tensors are called {own} w, expected one: not a ResNet")
    shape = tensors[stems[0], "w"].shape
    width, rest = divmod(shape[-1], 64)
    if rest or shape[:-1] != (7, 7, 3):
        raise UserError(f"{name}: {_shown((stems[0], 'w'))} is {shape}, expected (7, 7, 3, 64·width)")
    return stems[0].removesuffix(own), width


def _depth(tensors: _Tensors, prefix: str, name: str) -> tuple[str, bool]:
    """The encoder by its numbers of blocks, and whether these have more than one 3×3 kernel."""
    known = {depths: encoder for encoder, (block, depths) in ENCODERS.items() if block is Bottleneck}
    counts: dict[int, int] = {}
    kernels = 0
    for (module, leaf), tensor in tensors.items():
        found = re.match(r"block_group_([0-3])/block_(\d{1,3})/", module.removeprefix(prefix))
        if found:
            group, block = int(found[1]), int(found[2])
            counts[group] = max(counts.get(group, 0), block + 1)
            kernels += leaf == "w" and tensor.shape[:-2] == (3, 3)
    depths = tuple(counts[group] for group in sorted(counts))
    if depths not in known:
        names = ", ".join(f"{encoder} {depths}" for depths, encoder in known.items())
        raise UserError(f"{name}: groups of {depths} blocks are of no encoder of the paper: {names}")
    return known[depths], kernels > sum(depths)


def _encoder_modules(net: nn.Module, tensors: _Tensors, prefix: str, name: str) -> _Modules:
    modules: _Modules = {}
    selective = set()
    for layer in _layers(net):
        inner = re.sub(r"^layer\d+\.\d+\.", "", layer)
        block = layer.removesuffix(inner)
        if inner.startswith("conv2."):
            selective.add(block)
        else:
            modules[layer] = (_start(block, prefix) + (_BLOCK if block else _STEM)[inner],)
    for block in sorted(selective):
        found = _selective(net, tensors, block, _start(block, prefix), name)
        modules |= {f"{block}conv2.{part}": names for part, names in found.items()}
    return modules


def _start(block: str, prefix: str) -> str:
    """layer1.0. is block_group_0/block_0/."""
    return prefix + re.sub(
        r"layer(\d+)\.(\d+)\.", lambda it: f"block_group_{int(it[1]) - 1}/block_{it[2]}/", block
    )


def _selective(net: nn.Module, tensors: _Tensors, block: str, start: str, name: str) -> _Modules:
    """Whatever is in the block beside its outer layers is of its selective kernels."""
    outer = {start + part for part in _OUTER.values()}
    inner = {
        place: x.shape for place, x in tensors.items() if place[0].startswith(start) and place[0] not in outer
    }
    wanted = net.state_dict()
    return match_kernels(
        {module: shape for (module, leaf), shape in inner.items() if leaf == "w"},
        {module: shape[-1] for (module, leaf), shape in inner.items() if leaf == "scale"},
        path=_file_shapes(wanted[f"{block}conv2.paths.0.conv.weight"].shape, norm=False)[0],
        reduced=wanted[f"{block}conv2.attn.fc_reduce.weight"].shape[0],
        where=f"{name}: {line(start)}",
    )


def _heads(tensors: _Tensors, features: int, name: str) -> _Parts:
    """Projector, predictor and classifier, where the file has them."""
    heads: _Parts = {}
    there = {module.partition("/")[0] for module, _ in tensors}

    def outputs(module: str) -> int:
        return _found(tensors, (module, "w"), name).shape[-1]

    inputs = features
    for head in ("projector", "predictor"):
        if head in there:
            last = outputs(f"{head}/linear_1")
            modules: _Modules = {layer: (f"{head}/{part}",) for layer, part in _HEAD.items()}
            heads[head] = (create_head(inputs, outputs(f"{head}/linear"), last), modules)
            inputs = last
    if "classifier" in there:
        heads["classifier"] = (nn.Linear(features, outputs("classifier")), {"": ("classifier",)})
    return heads


def _layers(net: nn.Module) -> list[str]:
    return list(dict.fromkeys(key.rpartition(".")[0] for key in net.state_dict()))


def _state(
    net: nn.Module, modules: _Modules, tensors: _Tensors, step: int, name: str
) -> tuple[dict[str, Tensor], set[_Place]]:
    """A state for `net`, whose own has only shapes, and the places that it came from."""
    wanted = net.state_dict()
    state, used = {}, set()
    for key, target in wanted.items():
        layer, _, leaf = key.rpartition(".")
        if leaf == "num_batches_tracked":
            state[key] = torch.tensor(step)
            continue
        norm = f"{layer}.running_mean" in wanted
        places = [_place(module, leaf, norm=norm) for module in modules[layer]]
        shape = (target.shape[0] // len(places), *target.shape[1:])
        arrays = [_turned(tensors, place, shape, norm, name) for place in places]
        state[key] = torch.from_numpy(np.concatenate(arrays)).contiguous()
        used.update(places)
    return state, used


def _place(module: str, leaf: str, *, norm: bool) -> _Place:
    if leaf in _AVERAGES:
        return f"{module}/{_AVERAGES[leaf]}", "average"
    return module, {"weight": "scale" if norm else "w", "bias": "offset" if norm else "b"}[leaf]


def _found(tensors: _Tensors, place: _Place, name: str) -> NDArray[np.float32]:
    if place not in tensors:
        raise UserError(f"{name}: {_shown(place)} is missing")
    return tensors[place]


def _turned(
    tensors: _Tensors, place: _Place, shape: tuple[int, ...], norm: bool, name: str
) -> NDArray[np.float32]:
    """A tensor with outputs first and inputs second, where the file has them last."""
    tensor = _found(tensors, place, name)
    expected = _file_shapes(shape, norm=norm)
    if tensor.shape not in expected:
        wanted = " or ".join(str(each) for each in expected)
        raise UserError(f"{name}: {_shown(place)} is {tensor.shape}, expected {wanted}")
    axes = range(tensor.ndim)
    return tensor.transpose(*axes[:-3:-1], *axes[:-2]).reshape(shape)


def _file_shapes(shape: tuple[int, ...], *, norm: bool) -> list[tuple[int, ...]]:
    """Shapes in a file for one of ours; a 1×1 kernel may be that of a linear layer."""
    if len(shape) == 1:
        return [(1, 1, 1, *shape), (1, *shape)] if norm else [tuple(shape)]
    outputs, inputs, *window = shape
    whole = (*window, inputs, outputs)
    return [whole, (inputs, outputs)] if window == [1, 1] else [whole]
