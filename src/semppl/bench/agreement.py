"""Does the fast way compute what the plain way computes?

Shapes: V large views, C queue capacity, B images, D dims.
"""

from dataclasses import replace
from functools import partial
from typing import Final, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from semppl.bench.settings import BenchSettings
from semppl.bench.workload import build_workload, resident
from semppl.core.recording import CudaRecorder
from semppl.evaluate.descent import Means, decaying_adamw, decaying_sgd
from semppl.evaluate.linear import LinearFit
from semppl.evaluate.teaching import Pair, Teaching, create_student, learn_
from semppl.method.pseudo_labels import mode, nearest, vote
from semppl.method.queue import LabelledQueue
from semppl.train.capture import CapturedStep
from semppl.train.device import choose_device
from semppl.train.step import train_step_
from semppl.views.geometry import crop_resize, draw_boxes
from semppl.views.recipe import View

OPTIMISERS: Final[tuple[Literal["lars", "sgd", "adamw"], ...]] = ("lars", "sgd", "adamw")


def neighbours_agree(settings: BenchSettings) -> dict[str, float]:
    """Nearest neighbours and votes as the step computes them, against all cosines in float64.

    Entries are noisy copies of a few directions, so that neighbours are close to each other, as in a trained
    network, and labels are random, so that another neighbour nearly always means another label.
    """
    device, dim = choose_device(settings.device), 256
    rng = torch.Generator().manual_seed(settings.seed)
    views, capacity = settings.large, settings.queue
    centres = torch.randn(10, dim, generator=rng)

    def noisy(count: int) -> Tensor:
        which = torch.randint(10, (count,), generator=rng)
        noise = torch.randn(views, count, dim, generator=rng)
        return F.normalize(centres[which] + noise, dim=-1).to(device)

    queue = LabelledQueue(views, capacity, dim, capacity, initial_labels="none", device=device)
    keys_VCD, queries_VBD = noisy(capacity), noisy(settings.batch_size)
    queue.push_(keys_VCD, torch.randperm(capacity, generator=rng).to(device))
    queries_RD = queries_VBD.flatten(0, 1)
    same, exact = [], []
    for keys_CD in queue.embeddings_VCD:
        exact_R = queue.labels_C[_nearest_in_float64(queries_RD, keys_CD)]
        _, fast_R1 = nearest(queries_RD, keys_CD, queue.labels_C, 1, rounded=True)
        same.append(float((fast_R1.squeeze(1) == exact_R).double().mean()))
        exact.append(exact_R.view(views, -1))
    winner_B, _ = mode(torch.cat(exact).T)
    pseudo = float((vote(queries_VBD, queue).labels_B == winner_B).double().mean())
    return {"nearest_neighbours": sum(same) / len(same), "pseudo_labels": pseudo}


def _nearest_in_float64(queries_RD: Tensor, keys_CD: Tensor) -> Tensor:
    keys_CD = F.normalize(keys_CD.double(), dim=-1)
    return torch.cat([(part.double() @ keys_CD.T).argmax(1) for part in queries_RD.split(256)])


def crops_agree(device: torch.device) -> dict[str, float]:
    """Crops of a batch on the device against those on the CPU, in grey levels."""
    rng = torch.Generator().manual_seed(0)
    images = torch.randint(256, (64, 3, 40, 40), generator=rng, dtype=torch.uint8)
    box_B4 = draw_boxes(64, 40, 40, View(size=32, min_area=0.1), rng)
    flip_B = torch.rand(64, generator=rng) < 0.5
    plain = crop_resize(images, box_B4, 32, flip_B).int()
    fast = crop_resize(images.to(device), box_B4.to(device), 32, flip_B.to(device)).int().cpu()
    difference = (plain - fast).abs()
    return {
        "largest_difference": float(difference.max()),
        "share_equal": float((difference == 0).double().mean()),
    }


def recording_agrees(settings: BenchSettings, steps: int = 8) -> dict[str, dict[str, float]]:
    """Losses of the recorded step against those of the plain one, in float32, from the same weights.

    `again` is the plain one against itself: what the device's own order of additions changes.
    """
    result: dict[str, dict[str, float]] = {}
    for optimiser in OPTIMISERS:
        losses = []
        for kind in ("plain", "plain", "recorded"):
            training = build_workload(replace(_small(settings), optimiser=optimiser)).training
            plain = partial(train_step_, training.state, plan=training.plan)
            step = CapturedStep(training.state, training.plan) if kind == "recorded" else plain
            totals = [step(training.feed(i)).terms.total for i in range(steps)]
            losses.append(torch.stack(totals).double().cpu())
        scale = losses[0].abs().max()
        result[optimiser] = {
            "recorded": float((losses[2] - losses[0]).abs().max() / scale),
            "again": float((losses[1] - losses[0]).abs().max() / scale),
        }
    return result


def teaching_agrees(settings: BenchSettings, steps: int = 8, *, short: bool = False) -> dict[str, float]:
    """The same of fine-tuning with consistency: the teacher's weights after some steps of a long or a short
    training.
    """
    small = _small(settings)
    training, count, classes = build_workload(small).training, small.batch_size, small.classes
    device, encoder = training.device, training.state.online.encoder
    width = int(encoder.num_features)  # type: ignore[arg-type]
    fit = LinearFit(torch.eye(classes, width), torch.zeros(classes))
    prior_Y = torch.full((classes,), 1 / classes, device=device)

    def labelled(step: int) -> tuple[Tensor, Tensor]:
        views = training.feed(step).crops[0][: count // 4].float() / 255
        return views, torch.arange(len(views), device=device) % classes

    def pairs(step: int) -> Pair:
        easy, hard, *_ = (crop.float() / 255 for crop in training.feed(step).crops)
        return Pair(easy, hard, torch.arange(len(easy), device=device))

    descend, peak, least = (decaying_adamw, 0.01, 0.5) if short else (decaying_sgd, 0.1, 1 / classes)
    found = []
    for recorder in (None, None, CudaRecorder(device)):
        student = create_student(encoder, fit).to(device)
        optimizer, means = descend(student, lr=peak, weight_decay=5e-4), Means(recorder=recorder)
        teaching = Teaching(prior_Y=prior_Y, least=least, decay=0.5, doubtful=short, means=means)
        teacher = learn_(student, labelled, pairs, optimizer, lambda step: peak / (1 + step), steps, teaching)
        found.append(torch.cat([p.flatten() for p in teacher.parameters()]).double().cpu())
    scale = found[0].abs().max()
    return {
        "recorded": float((found[2] - found[0]).abs().max() / scale),
        "again": float((found[1] - found[0]).abs().max() / scale),
    }


def step_waits_for_nothing(settings: BenchSettings) -> bool:
    """Whether a step with its feed runs without the host ever waiting for the GPU."""
    workload = build_workload(_small(settings))
    training = workload.training
    for i in range(3):
        train_step_(training.state, training.feed(i), training.plan)
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        train_step_(training.state, resident(workload).make(3), training.plan)
    except RuntimeError:
        return False
    finally:
        torch.cuda.set_sync_debug_mode(before)
    return True


def _small(settings: BenchSettings) -> BenchSettings:
    return replace(
        settings,
        encoder="resnet18",
        image_size=32,
        batch_size=64,
        large=2,
        small=1,
        queue=512,
        classes=10,
        precision="fp32",
        speed="graph",
        micro_batch=None,
    )
