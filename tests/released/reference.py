"""The released networks in numpy, literally: one image [H,W,C] in float64, by the names in the file."""

import numpy as np


def same(size, kernel, stride, rate):
    """How many outputs, and pixels of padding before and after: TensorFlow's SAME."""
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + (kernel - 1) * rate + 1 - size, 0)
    return outputs, (total // 2, total - total // 2)


def windows(x, kernel, stride, rate, fill):
    """For each place of the kernel the pixels that it meets."""
    (height, rows), (width, columns) = (same(size, kernel, stride, rate) for size in x.shape[:2])
    x = np.pad(x, (rows, columns, (0, 0)), constant_values=fill)
    for i in range(kernel):
        for j in range(kernel):
            a, b = i * rate, j * rate
            yield (
                i,
                j,
                x[a : a + (height - 1) * stride + 1 : stride, b : b + (width - 1) * stride + 1 : stride],
            )


def conv(x, w, stride=1, rate=1, groups=1):
    kernel, _, inputs, outputs = w.shape
    total = 0
    for i, j, window in windows(x, kernel, stride, rate, 0):
        split = window.reshape(*window.shape[:2], groups, inputs)
        part = w[i, j].reshape(inputs, groups, outputs // groups)
        total = total + np.einsum("hwgi,igo->hwgo", split, part).reshape(*window.shape[:2], outputs)
    return total


def pool(x):
    return np.max([window for _, _, window in windows(x, 3, 2, 1, -np.inf)], axis=0)


def relu(x):
    return np.maximum(x, 0)


class Reference:
    """Parameters and state as in the file, of the first replica."""

    def __init__(self, params, state, prefix):
        self.params, self.state, self.prefix = params, state, prefix

    def w(self, name):
        return np.asarray(self.params[self.prefix + name]["w"][0], np.float64)

    def norm(self, name, x):
        module = self.prefix + name
        scale, offset = (
            self.params[module][leaf][0].ravel().astype(np.float64) for leaf in ("scale", "offset")
        )
        mean, var = (self.state[f"{module}/~/{part}_ema"]["average"][0].ravel() for part in ("mean", "var"))
        return (x - mean) / np.sqrt(var.astype(np.float64) + 1e-5) * scale + offset

    def features(self, image, middle, stem, block_name):
        x = relu(self.norm("initial_batchnorm", conv(image, self.w(stem), 2)))
        x = pool(x)
        for group, depth in enumerate((3, 4, 6, 3)):
            for block in range(depth):
                name = block_name.format(group, block)
                stride = 2 if group and not block else 1
                kept = x
                if block == 0:
                    kept = self.norm(
                        f"{name}shortcut_batchnorm", conv(x, self.w(f"{name}shortcut_conv"), stride)
                    )
                x = relu(self.norm(f"{name}batchnorm_0", conv(x, self.w(f"{name}conv_0"))))
                x = middle(self, name, x, stride)
                x = relu(self.norm(f"{name}batchnorm_2", conv(x, self.w(f"{name}conv_2"))) + kept)
        return x.mean((0, 1))


def plain(net, name, x, stride):
    return relu(net.norm(f"{name}batchnorm_1", conv(x, net.w(f"{name}conv_1"), stride)))


def selective(net, name, x, stride):
    """As `haiku_nets` names its parts: linear layers in the first two groups, convolutions in the others."""
    paths = []
    for rate in (1, 2):
        path = f"{name}conv_1/~/path_{rate}/~/grouped"
        paths.append(relu(net.norm(f"{path}_norm", conv(x, net.w(path), stride, rate, groups=32))))
    mean = (paths[0] + paths[1]).mean((0, 1))
    inner = f"{name}conv_1/"
    down = net.w(f"{inner}squeeze")
    small = relu(net.norm(f"{inner}squeeze_norm", mean @ down.reshape(down.shape[-2:])))
    if f"{net.prefix}{inner}to_both" in net.params:
        logits = (small @ net.w(f"{inner}to_both")[0, 0]).reshape(2, -1)
    else:
        logits = np.stack([small @ net.w(f"{inner}to_{i}") for i in (0, 1)])
    first = 1 / (1 + np.exp(logits[1] - logits[0]))
    return paths[0] * first + paths[1] * (1 - first)
