"""The network that refines: an encoder of ours, and a way back up to the pixels.

Shapes: B images, K maps, H×W pixels.
"""

from typing import Final, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from semppl.nets.encoder import create_encoder
from semppl.nets.resnet import ResNet

ENCODER: Final = "resnet18"
_DETAIL: Final = 32


@final
class Segmenter(nn.Module):
    """Normalised images [B,3,H,W] → logits [B,K,H,W].

    A ResNet goes down to 1/32 of the side; each step up takes in the features of that size, and the last one
    the image itself. Two channels say where a pixel is, because what is photographed is rarely at the edge.
    """

    def __init__(self, num_maps: int) -> None:
        super().__init__()
        encoder = create_encoder(ENCODER, last_scale=1.0)
        if not isinstance(encoder, ResNet):
            raise TypeError(f"{ENCODER} has no groups of layers")
        self.encoder = encoder
        deep = encoder.num_features
        self.detail = _layer(5, _DETAIL)
        self.whole = nn.Linear(deep, deep)
        sides = (deep // 2, deep // 4, deep // 8, deep // 8, _DETAIL)
        self.up = nn.ModuleList(
            _layer(below + beside, beside) for below, beside in zip((deep + 2, *sides), sides, strict=False)
        )
        self.last = nn.Conv2d(_DETAIL, num_maps, 1)

    def forward(self, images_BCHW: Tensor) -> Tensor:
        """One map for each source, or for all of them."""
        detail = self.detail(torch.cat([images_BCHW, _places(images_BCHW)], 1))
        *beside, deep = self._down(images_BCHW)
        deep = deep + F.relu(self.whole(deep.mean((2, 3))))[:, :, None, None]
        x = torch.cat([deep, _places(deep)], 1)
        for up, side in zip(self.up, (*reversed(beside), detail), strict=True):
            x = F.interpolate(x, size=side.shape[2:], mode="bilinear", align_corners=False)
            x = up(torch.cat([x, side], 1))
        return self.last(x)

    def _down(self, images_BCHW: Tensor) -> list[Tensor]:
        net = self.encoder
        features = [net.relu(net.bn1(net.conv1(images_BCHW)))]
        x = net.maxpool(features[0])
        for group in ("layer1", "layer2", "layer3", "layer4"):
            x = net.get_submodule(group)(x)
            features.append(x)
        return features


def _layer(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
    )


def _places(x_BCHW: Tensor) -> Tensor:
    """Rows and columns [B,2,H,W] from −1 to 1."""
    num_images, _, height, width = x_BCHW.shape
    rows = torch.linspace(-1, 1, height, device=x_BCHW.device, dtype=x_BCHW.dtype)
    columns = torch.linspace(-1, 1, width, device=x_BCHW.device, dtype=x_BCHW.dtype)
    grid_2HW = torch.stack(torch.meshgrid(rows, columns, indexing="ij"))
    return grid_2HW.expand(num_images, -1, -1, -1)
