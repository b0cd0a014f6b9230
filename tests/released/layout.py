"""The tensors of a released checkpoint by the table of its layout, without Haiku: names and shapes."""

import numpy as np

DEPTHS = {
    "resnet50": (3, 4, 6, 3),
    "resnet101": (3, 4, 23, 3),
    "resnet152": (3, 8, 36, 3),
    "resnet200": (3, 24, 36, 3),
}


def block_shapes(start, inputs, outputs, first, sk):
    """Kernels, and channels of norms, in a block."""
    middle = outputs // (2 if sk else 4)
    kernels = {"conv_0": (1, 1, inputs, middle), "conv_2": (1, 1, middle, outputs)}
    norms = {"batchnorm_0": middle, "batchnorm_2": outputs}
    if first:
        kernels["shortcut_conv"], norms["shortcut_batchnorm"] = (1, 1, inputs, outputs), outputs
    if sk:
        reduced = max(middle // 16, 32)
        kernels |= {f"sk/~/conv_{i}": (3, 3, middle // 32, middle) for i in (0, 1)}
        kernels |= {"sk/~/down": (middle, reduced), "sk/~/up": (reduced, 2 * middle)}
        norms |= {"sk/~/norm_0": middle, "sk/~/norm_1": middle, "sk/~/norm_2": reduced}
    else:
        kernels["conv_1"], norms["batchnorm_1"] = (3, 3, middle, middle), middle
    return {start + k: v for k, v in kernels.items()}, {start + k: v for k, v in norms.items()}


def shapes(encoder="resnet50", width=1, sk=False, prefix="res_net50/~/", heads=True):
    """{module: {leaf: shape}} of parameters and of state."""
    kernels = {f"{prefix}initial_conv": (7, 7, 3, 64 * width)}
    norms = {f"{prefix}initial_batchnorm": 64 * width}
    inputs = 64 * width
    for group, depth in enumerate(DEPTHS[encoder]):
        outputs = 256 * 2**group * width
        for block in range(depth):
            start = f"{prefix}block_group_{group}/~/block_{block}/~/"
            more_kernels, more_norms = block_shapes(start, inputs, outputs, block == 0, sk)
            kernels |= more_kernels
            norms |= more_norms
            inputs = outputs
    params = {module: {"w": shape} for module, shape in kernels.items()}
    averages = {module: (1, 1, 1, channels) for module, channels in norms.items()}
    if heads:
        for head, size in (("projector", inputs), ("predictor", 8)):
            params |= {f"{head}/linear": {"w": (size, 16), "b": (16,)}, f"{head}/linear_1": {"w": (16, 8)}}
            averages[f"{head}/batch_norm"] = (1, 16)
        params["classifier"] = {"w": (inputs, 5), "b": (5,)}
    params |= {module: {"scale": shape, "offset": shape} for module, shape in averages.items()}
    state = {f"{module}/~/{part}": {"average": shape, "hidden": shape, "counter": ()}
             for module, shape in averages.items() for part in ("mean_ema", "var_ema")}  # fmt: skip
    return params, state


def content(*, replicas=1, value=0.5, step=7, **options):
    """What the pickle of such a checkpoint holds; its arrays take no memory."""

    def array(shape):
        return np.broadcast_to(np.float32(value), ((replicas,) if replicas else ()) + shape)

    def arrays(part):
        return {module: {k: array(shape) for k, shape in leaves.items()} for module, leaves in part.items()}

    params, state = shapes(**options)
    return {
        "experiment_state": {"online_params": arrays(params), "online_state": arrays(state)},
        "step": step,
    }


def parts(checkpoint):
    """Parameters and state, to change them."""
    return checkpoint["experiment_state"]["online_params"], checkpoint["experiment_state"]["online_state"]
