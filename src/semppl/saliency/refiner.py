"""A network that learns from the sources' maps what they have in common, and so errs less than each.

After DeepUSPS (Nguyen et al., NeurIPS 2019), at the scale of minutes. Rounds: all sources are learnt at once,
one output for each, against maps that are cut along the image's edges; what the network says of its own
examples is averaged over the round, and the mean of that and of the source's own map, cut again, is what the
next round learns. Then jointly: one output learns all sources' last maps. Each training starts from the same
self-supervised encoder.

Shapes: N examples, P images to start from, B images of a batch, K sources, s side of the network's square.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Final, TypeVar, final

import torch
from torch import Tensor

from semppl.core.errors import UserError
from semppl.core.rng import generator, stream
from semppl.core.rundir import write_atomically
from semppl.nets.initialise import undrawn
from semppl.saliency.cut import cut_part
from semppl.saliency.network import Segmenter
from semppl.saliency.score import BETA2
from semppl.saliency.start import started_encoder
from semppl.train.device import free_memory_
from semppl.views.geometry import cut_views
from semppl.views.photometric import finish
from semppl.views.recipe import View

T = TypeVar("T")
R = TypeVar("R")
Colours = tuple[Tensor, Tensor]
"""Mean and standard deviation of the channels."""
Advance = Callable[[str, int, int], None]
Spread = Callable[[Callable[[T], R], Iterator[T]], Iterable[R]]

SIZE: Final = 192
ROUNDS: Final = 2
EPOCHS: Final = 25
LEAST_STEPS: Final = 900
"""Of a round with few images."""
_BATCH: Final = 32
_LR: Final = 1e-3
_WARMUP: Final = 50
_LOOKS: Final = 10
"""How often in a round the network is asked about its examples."""
_MEMORY: Final = 0.7
"""Of the average over a round; DeepUSPS's."""
_TOGETHER: Final = 128
"""Images that are answered at a time."""
_CUT_TOGETHER: Final = 8
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@final
class Refiner:
    """uint8 images [B,3,s,s] → maps [B,s,s] from 0 to 1, on the CPU."""

    def __init__(self, net: Segmenter, size: int, device: torch.device) -> None:
        self.net, self.size, self.device = net.to(device).eval(), size, device

    def __call__(self, images_B3ss: Tensor) -> Tensor:
        """The mean over an image and its mirror image."""
        parts = [_answer(self.net, part.to(self.device)) for part in images_B3ss.split(_TOGETHER)]
        return torch.cat(parts).mean(1).cpu()

    def save(self, path: Path) -> None:
        """Weights and size."""
        content = {"size": self.size, "net": {name: v.cpu() for name, v in self.net.state_dict().items()}}
        write_atomically(path, lambda file: torch.save(content, file))

    @classmethod
    def load(cls, path: Path, device: torch.device) -> "Refiner":
        """Back again."""
        content, net = _loaded(path) or {}, undrawn(lambda: Segmenter(1))
        try:
            net.load_state_dict(content["net"])
            size = int(content["size"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise UserError(
                f"{path}: not a network of semppl masks: use --overwrite to train another one"
            ) from error
        return cls(net, size, device)


def train_refiner(
    images_N3ss: Tensor,
    maps_NKss: Tensor,
    pool_P3ss: Tensor,
    *,
    device: torch.device,
    seed: int,
    place: Path,
    spread: Spread[Any, Any],
    advance: Advance,
) -> Refiner:
    """From 8-bit images and maps; what is done is kept in the folder `place`, and not done again for the same
    images, maps and seed.

    The encoder has seen the images of `pool` before. `spread` maps a function over an iterator in several
    processes.
    """
    size = images_N3ss.shape[-1]
    place.mkdir(parents=True, exist_ok=True)
    on_device_N3ss = images_N3ss.to(device)
    origin = _fingerprint(seed, images_N3ss, maps_NKss, pool_P3ss)

    def kept(name: str, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        found = _loaded(place / name)
        if found is None or found.get("origin") != origin:
            found = {"origin": origin, "made": make()}
            write_atomically(place / name, lambda file: torch.save(found, file))
        return found["made"]

    encoder = kept(
        "start.pt",
        lambda: started_encoder(
            pool_P3ss,
            device=device,
            seed=seed,
            advance=partial(advance, "looking at the images"),
        ),
    )
    free_memory_(device)  # of that training, whose recording holds on to itself
    # the fused map is one of the sources: each of the others errs more often
    fused_N1ss = maps_NKss.float().mean(1, keepdim=True).round().to(torch.uint8)
    sources_NKss = torch.cat([maps_NKss, fused_N1ss], 1)

    def lesson(number: int, wanted_NKss: Tensor) -> tuple[Segmenter, Tensor]:
        """A round, or the last one: all sources by one output."""
        last = number == ROUNDS
        title = "learning from all sources together" if last else f"learning, round {number + 1} of {ROUNDS}"
        sharp_NKss = _cut_all(images_N3ss, wanted_NKss, spread, partial(advance, "cutting along edges"))
        return learn(
            on_device_N3ss,
            sharp_NKss.to(device),
            encoder,
            num_maps=1 if last else wanted_NKss.shape[1],
            seed=stream(seed, "refiner", number),
            advance=partial(advance, title),
        )

    def said_after(number: int, wanted_NKss: Tensor) -> dict[str, Tensor]:
        return {"said": lesson(number, wanted_NKss)[1]}

    wanted_NKss = sources_NKss
    for number in range(ROUNDS):
        made = kept(f"round-{number + 1}.pt", partial(said_after, number, wanted_NKss))
        # without the source beside it a round would learn from the errors of the one before (docs/masks.md)
        wanted_NKss = ((sources_NKss.short() + made["said"].short()) // 2).to(torch.uint8)
    return Refiner(lesson(ROUNDS, wanted_NKss)[0], size, device)


def learn(
    images_N3ss: Tensor,
    targets_NKss: Tensor,
    encoder: dict[str, Tensor],
    *,
    num_maps: int,
    seed: int,
    advance: Callable[[int, int], None],
    steps: int | None = None,
) -> tuple[Segmenter, Tensor]:
    """A network, and the average of what it said of its examples, 8-bit [N,K,s,s].

    One output is held against all K targets; K outputs are held against one each.
    """
    device = images_N3ss.device
    steps = steps or max(LEAST_STEPS, EPOCHS * len(images_N3ss) // _BATCH)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, "weights"))
        net = Segmenter(num_maps)
    net.encoder.load_state_dict(encoder)
    net = net.to(device).to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=_LR, weight_decay=1e-2, fused=device.type == "cuda")
    view, colours = View(size=images_N3ss.shape[-1], min_area=0.35, grey=0.15), _colours(device)
    weight, every = 0.0, max(1, steps // _LOOKS)
    history_NKss = torch.zeros(len(images_N3ss), num_maps, *images_N3ss.shape[2:], device=device)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = _LR * min(1.0, (step + 1) / _WARMUP) * (1 - step / steps) ** 0.9
        views, wanted = _batch(images_N3ss, targets_NKss, view, seed, step, colours)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            logits = net(views)
        loss = f_loss(logits.float().sigmoid(), wanted)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if (step + 1) % every == 0:
            # in place and part by part: of thousands of examples each copy takes gigabytes
            for part, said in zip(images_N3ss.split(_TOGETHER), history_NKss.split(_TOGETHER), strict=True):
                said.mul_(_MEMORY).add_((1 - _MEMORY) * _answer(net, part))
            weight = _MEMORY * weight + (1 - _MEMORY)
            net.train()
        advance(step + 1, steps)
    return net, history_NKss.div_(weight).mul_(255).round_().to(torch.uint8).cpu()


def f_loss(said_BKss: Tensor, wanted_BJss: Tensor) -> Tensor:
    """1 − F of each map, in the mean; precision and recall of soft maps, with the β² of the scores.

    DeepUSPS has β² = 1. Then the network says too much, so that its best threshold is far above a half, and
    each round makes it worse (docs/masks.md).
    """
    said, wanted = torch.broadcast_tensors(said_BKss, wanted_BJss)
    right = (said * wanted).sum((2, 3))
    return (1 - (1 + BETA2) * right / (BETA2 * wanted.sum((2, 3)) + said.sum((2, 3)) + 1e-6)).mean()


def _batch(
    images_N3ss: Tensor, targets_NKss: Tensor, view: View, seed: int, step: int, colours: Colours
) -> tuple[Tensor, Tensor]:
    """Views and what is wanted there: both are cut alike, and colours change in the views alone."""
    device = images_N3ss.device
    rng = generator(seed, "examples", step)
    index_B = torch.randint(len(images_N3ss), (_BATCH,), generator=rng).to(device)
    both = torch.cat([images_N3ss[index_B], targets_NKss[index_B]], 1)
    (crops,) = cut_views(both, [view], 1, generator(seed, "geometry", step, device))
    views = finish(crops[:, :3].contiguous(), view, *colours, generator(seed, "photometric", step, device))
    return views.contiguous(memory_format=torch.channels_last), (crops[:, 3:] > 127).float()


@torch.no_grad()
def _answer(net: Segmenter, images_B3ss: Tensor) -> Tensor:
    """[B,K,s,s] from 0 to 1."""
    net.eval()
    device = images_B3ss.device
    mean_3, std_3 = _colours(device)
    x = (images_B3ss.float() / 255 - mean_3[:, None, None]) / std_3[:, None, None]
    x = x.contiguous(memory_format=torch.channels_last)
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        there, back = net(x), net(x.flip(3)).flip(3)
    return (there.float().sigmoid() + back.float().sigmoid()) / 2


def _colours(device: torch.device) -> Colours:
    return torch.tensor(_MEAN, device=device), torch.tensor(_STD, device=device)


def _cut_all(
    images_N3ss: Tensor, maps_NKss: Tensor, spread: Spread[Any, Any], advance: Callable[[int, int], None]
) -> Tensor:
    """Every map cut along its image's edges, 8-bit."""
    pairs = zip(
        images_N3ss.permute(0, 2, 3, 1).split(_CUT_TOGETHER), maps_NKss.split(_CUT_TOGETHER), strict=True
    )
    done, parts = 0, list[Tensor]()
    for part in spread(cut_part, ((images.numpy(), maps.numpy()) for images, maps in pairs)):
        parts.append(torch.from_numpy(part))
        done += len(part)
        advance(done, len(images_N3ss))
    return torch.cat(parts)


def _fingerprint(seed: int, *parts: Tensor) -> str:
    """Of what a training starts from: an interrupted one may find other images beside what it kept."""
    told = sha256(str(seed).encode())
    for part in parts:
        told.update(str(tuple(part.shape)).encode())
        told.update(part.contiguous().numpy().data)
    return told.hexdigest()


def _loaded(path: Path) -> dict[str, Any] | None:
    """What a file of ours holds; None if it is not there or damaged."""
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, LookupError, UnpicklingError):
        return None
    return found if isinstance(found, dict) else None
