"""Networks of Haiku itself, written as the released checkpoints were.

A program of its own, `haiku_nets.py NET FOLDER`, since a process in which jax has run must not fork, and
those of other tests do. It writes NET.pkl with dill, and images with the outputs of Haiku for them.
"""

import sys
from pathlib import Path

import dill
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

DEPTHS = {"resnet50": (3, 4, 6, 3), "resnet200": (1, 12, 1, 1)}  # of the latter's kind, in less time
NORM = {"create_scale": True, "create_offset": True, "decay_rate": 0.9, "eps": 1e-5}
SIZES = {
    "resnet50": [(96, 96), (65, 81)],
    "sk": [(96, 96), (65, 81)],
    "resnet200": [(65, 81)],  # padding is the same at any depth
}
# replicas, arrays of whom, protocol of the pickle
WRITTEN = {"resnet50": (2, jnp.asarray, 2), "sk": (1, np.asarray, 2), "resnet200": (1, np.asarray, 4)}


class Head(hk.Module):
    """One hidden layer with its norm."""

    def __call__(self, x):
        x = hk.BatchNorm(**NORM)(hk.Linear(48)(x), hk.running_init())
        return hk.Linear(24, with_bias=False)(jax.nn.relu(x))


class Branch(hk.Module):
    """A grouped 3×3 convolution with its norm."""

    def __init__(self, channels, stride, rate, name):
        super().__init__(name)
        kind = {"rate": rate, "feature_group_count": 32, "with_bias": False, "name": "grouped"}
        self.conv = hk.Conv2D(channels, 3, stride, **kind)
        self.norm = hk.BatchNorm(**NORM, name="grouped_norm")

    def __call__(self, x):
        return jax.nn.relu(self.norm(self.conv(x), hk.running_init()))


class Selective(hk.Module):
    """Two paths and a softmax over them; as linear layers, one to each path, or as convolutions."""

    def __init__(self, channels, stride, linear):
        super().__init__("conv_1")
        self.paths = [Branch(channels, stride, rate, f"path_{rate}") for rate in (1, 2)]
        self.reduced, self.linear = max(channels // 16, 32), linear

    def __call__(self, x):
        paths = jnp.stack([path(x) for path in self.paths])
        channels = paths.shape[-1]
        mean = paths.sum(0).mean((1, 2), keepdims=not self.linear)
        layer = hk.Linear if self.linear else (lambda size, **kind: hk.Conv2D(size, 1, **kind))
        small = layer(self.reduced, with_bias=False, name="squeeze")(mean)
        small = jax.nn.relu(hk.BatchNorm(**NORM, name="squeeze_norm")(small, hk.running_init()))
        if self.linear:
            choice = jnp.stack([layer(channels, with_bias=False, name=f"to_{i}")(small) for i in (0, 1)])
            choice = choice[:, :, None, None]
        else:
            choice = jnp.stack(jnp.split(layer(2 * channels, with_bias=False, name="to_both")(small), 2, -1))
        return (paths * jax.nn.softmax(choice, 0)).sum(0)


class SelectiveBlock(hk.Module):
    """1×1 → selective kernels → 1×1, with the names of BYOL around them."""

    def __init__(self, channels, stride, first, linear, name):
        super().__init__(name)

        def conv(size, name, stride=1):
            return hk.Conv2D(size, 1, stride, with_bias=False, name=name)

        self.begin, self.end = conv(channels // 2, "conv_0"), conv(channels, "conv_2")
        self.norms = [hk.BatchNorm(**NORM, name=f"batchnorm_{i}") for i in (0, 2)]
        self.middle = Selective(channels // 2, stride, linear)
        self.shortcut = conv(channels, "shortcut_conv", stride) if first else None
        self.shortcut_norm = hk.BatchNorm(**NORM, name="shortcut_batchnorm") if first else None

    def __call__(self, x):
        kept = self.shortcut_norm(self.shortcut(x), hk.running_init()) if self.shortcut else x
        x = self.middle(jax.nn.relu(self.norms[0](self.begin(x), hk.running_init())))
        return jax.nn.relu(self.norms[1](self.end(x), hk.running_init()) + kept)


class SelectiveGroup(hk.Module):
    def __init__(self, depth, channels, stride, linear, name):
        super().__init__(name)
        self.blocks = [
            SelectiveBlock(channels, 1 if block else stride, block == 0, linear, f"block_{block}")
            for block in range(depth)
        ]

    def __call__(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class SKResNet50(hk.Module):
    """The paper's encoder with selective kernels, as far as it is known."""

    def __call__(self, x):
        x = hk.Conv2D(64, 7, 2, with_bias=False, name="initial_conv_1")(x)
        x = jax.nn.relu(hk.BatchNorm(**NORM, name="initial_batchnorm")(x, hk.running_init()))
        x = hk.max_pool(x, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for group, depth in enumerate(DEPTHS["resnet50"]):
            stride, name = 2 if group else 1, f"block_group_{group}"
            x = SelectiveGroup(depth, 256 * 2**group, stride, group < 2, name)(x)
        return x.mean((1, 2))


def resnet(name, width):
    """Haiku's own, whose last layer is left out."""
    net = hk.nets.ResNet(
        DEPTHS[name],
        num_classes=1,
        channels_per_group=[256 * 2**group * width for group in range(4)],
        initial_conv_config={"output_channels": 64 * width},
        name=name.replace("resnet", "res_net"),
    )
    net.logits = lambda features: features
    return lambda x: net(x, hk.running_init())


def with_heads(x):
    features = resnet("resnet50", 1)(x)
    projection = Head("projector")(features)
    return features, projection, Head("predictor")(projection), hk.Linear(10, name="classifier")(features)


def alone(net):
    return lambda x: (net()(x),)


NETS = {
    "resnet50": with_heads,
    "sk": alone(SKResNet50),
    "resnet200": alone(lambda: resnet("resnet200", 2)),
}


def random_leaf(module, leaf, shape, rng):
    """Numbers with which features neither vanish nor explode."""
    if leaf == "counter":
        return np.int32(7)
    if leaf == "w":
        # as many as a prime, over and over: no axis fits, and fifty million would take a while
        numbers = rng.random(65537, np.float32) - np.float32(0.5)
        return np.resize(numbers * np.float32((24 / np.prod(shape[:-1])) ** 0.5), shape)
    low, high = {"scale": (0.5, 1), "b": (-0.2, 0.2), "offset": (-0.2, 0.2), "hidden": (5, 6)}.get(
        leaf, (0.5, 1.5)
    )
    if "mean_ema" in module:
        low, high = low - 1, high - 1
    if leaf == "scale" and module.endswith("batchnorm_2"):
        low, high = 0.2, 0.4
    return rng.uniform(low, high, shape).astype(np.float32)


def random_leaves(shapes, rng):
    return {module: {leaf: random_leaf(module, leaf, x.shape, rng) for leaf, x in leaves.items()}
            for module, leaves in shapes.items()}  # fmt: skip


def replicated(tree, replicas, kind):
    """Other replicas hold other numbers, so that the first must be taken."""

    def many(x):
        return kind(np.asarray(x)[None] if replicas == 1 else np.stack([x, -x][:replicas]))

    return {module: {leaf: many(x) for leaf, x in leaves.items()} for module, leaves in tree.items()}


def main(name, folder):
    rng = np.random.default_rng(0)
    net = hk.transform_with_state(NETS[name])
    shapes = jax.eval_shape(net.init, jax.random.PRNGKey(0), jnp.zeros((1, 64, 64, 3)))
    params, state = (random_leaves(part, rng) for part in shapes)
    outputs, apply = {}, jax.jit(lambda *inputs: net.apply(*inputs)[0])
    for size in SIZES[name]:
        images = rng.standard_normal((1, *size, 3), np.float32)
        values = apply(params, state, None, images)
        outputs[f"images_{size[0]}"] = images
        outputs |= {f"output_{i}_{size[0]}": np.asarray(value) for i, value in enumerate(values)}
    np.savez(folder / f"{name}.npz", **outputs)
    replicas, kind, protocol = WRITTEN[name]
    if replicas:
        params, state = (replicated(part, replicas, kind) for part in (params, state))
    immutable = hk.data_structures.to_immutable_dict
    experiment = {"online_params": immutable(params), "online_state": immutable(state)}
    content = {"experiment_state": experiment, "step": 1234, "rng": jax.random.PRNGKey(3)}
    with (folder / f"{name}.pkl").open("wb") as file:
        dill.dump(content, file, protocol=protocol)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
