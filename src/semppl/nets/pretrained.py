"""Any image model of timm as an encoder, with fresh weights or its own."""

from functools import lru_cache
from typing import Final, final

import timm
import torch
from timm.models import get_pretrained_cfg
from torch import Tensor, nn

from semppl.core.errors import UserError

PREFIX: Final = "timm:"
_PATCHES: Final = (14, 16, 32)


@final
class TimmEncoder(nn.Module):
    """Images of any size that the model takes → pooled features."""

    def __init__(self, net: nn.Module, num_features: int) -> None:
        super().__init__()
        self.net, self.num_features = net, num_features

    def forward(self, images_BCHW: Tensor) -> Tensor:
        """Features before any classifier."""
        return self.net(images_BCHW)


def create_timm(name: str, *, pretrained: bool) -> TimmEncoder:
    """`name` with or without the prefix; transformers take views of different sizes where they can."""
    name = name.removeprefix(PREFIX)
    if not timm.is_model(name):
        close = timm.list_models(f"*{name.split('.')[0][:8]}*")[:3]
        hint = f": perhaps {', '.join(close)}" if close else ""
        raise UserError(f"timm has no model {name!r}{hint}")
    try:
        net = _create(name, pretrained)
    except (OSError, RuntimeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"timm's weights of {name!r} could not be had ({reason}): check the network, or leave "
            "--pretrained out"
        ) from error
    return TimmEncoder(net, _num_features(net))


def _num_features(net: nn.Module) -> int:
    """Some models widen their features once more on the way to a classifier."""
    return int(getattr(net, "head_hidden_size", None) or getattr(net, "num_features"))  # noqa: B009


def _create(name: str, pretrained: bool) -> nn.Module:
    try:
        return timm.create_model(name, pretrained=pretrained, num_classes=0, dynamic_img_size=True)
    except TypeError:  # models without positions to interpolate do not know the word
        return timm.create_model(name, pretrained=pretrained, num_classes=0)


def own_size(name: str) -> int | None:
    """The side of images that the model's weights were trained on."""
    name = name.removeprefix(PREFIX)
    config = get_pretrained_cfg(name) if timm.is_model(name) else None
    return None if config is None else int(config.input_size[-1])


@lru_cache(maxsize=64)
def fitting_size(name: str, wanted: int) -> int:
    """The side of images that a model takes which is nearest to the one wanted: found by trying.

    Some take multiples of their patches alone, some no other size than their own. Where nothing helps, or
    the encoder is not one of timm, it is what was wanted.
    """
    model = name.removeprefix(PREFIX)
    if not name.startswith(PREFIX) or not timm.is_model(model):
        return wanted
    own = own_size(name)
    tried = [wanted, *sorted(-(-wanted // patch) * patch for patch in _PATCHES), *([own] if own else [])]
    with torch.device("meta"):
        net = _create(model, pretrained=False).eval()
        return next((size for size in tried if _takes(net, size)), wanted)


def _takes(net: nn.Module, size: int) -> bool:
    try:
        net(torch.empty(1, 3, size, size))
    except (AssertionError, RuntimeError, ValueError):
        return False
    return True


def normalisation_of(name: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation that the model's own weights expect."""
    config = get_pretrained_cfg(name.removeprefix(PREFIX))
    if config is None:
        raise UserError(f"timm has no weights for {name!r}: leave --pretrained out")
    return config.mean, config.std
