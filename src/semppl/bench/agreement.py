"""Does the fast way compute what the plain way computes?

Shapes: V large views, C queue capacity, B images, D dims.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F

from semppl.bench.settings import BenchSettings
from semppl.bench.workload import build_workload
from semppl.method.pseudo_labels import nearest, vote
from semppl.method.queue import LabelledQueue
from semppl.train.build import choose_device
from semppl.train.capture import CapturedStep
from semppl.train.step import train_step_


def neighbours_agree(settings: BenchSettings) -> dict[str, Any]:
    """Nearest neighbours and votes as the step computes them, against all cosines in float64.

    Entries are noisy copies of one direction for each class, so that neighbours are close to each other, as
    in a trained network.
    """
    device, dim = choose_device(settings.device), 256
    rng = torch.Generator().manual_seed(settings.seed)
    views, capacity, classes = settings.large, settings.queue, settings.classes
    centres = torch.randn(classes, dim, generator=rng)
    queue = LabelledQueue(views, capacity, dim, classes, initial_labels="none", device=device)
    labels_C = torch.randint(classes, (capacity,), generator=rng)
    noise_VCD = torch.randn(views, capacity, dim, generator=rng)
    queue.push_(F.normalize(centres[labels_C] + noise_VCD, dim=-1).to(device), labels_C.to(device))
    truth_B = torch.randint(classes, (settings.batch_size,), generator=rng)
    noise_VBD = torch.randn(views, settings.batch_size, dim, generator=rng)
    queries_VBD = F.normalize(centres[truth_B] + 2 * noise_VBD, dim=-1).to(device)
    same, votes = [], vote(queries_VBD, queue)
    exact_ballots = []
    for i in range(views):
        queries_RD = queries_VBD.flatten(0, 1)
        keys_CD = F.normalize(queue.embeddings_VCD[i].double(), dim=-1)
        columns = [(part.double() @ keys_CD.T).argmax(1) for part in queries_RD.split(256)]
        exact_R = queue.labels_C[torch.cat(columns)]
        _, fast_R1 = nearest(queries_RD, queue.embeddings_VCD[i], queue.labels_C, 1, rounded=True)
        same.append(float((fast_R1.squeeze(1) == exact_R).double().mean()))
        exact_ballots.append(exact_R.view(views, -1))
    winner_B = torch.cat(exact_ballots).mode(0).values
    return {
        "labels_of_nearest_neighbours": sum(same) / len(same),
        "pseudo_labels": float((votes.labels_B == winner_B).double().mean()),
    }


def recording_agrees(settings: BenchSettings, steps: int = 8) -> dict[str, float]:
    """Losses of the recorded step against those of the plain one, in float32, from the same weights.

    `again` is the plain one against itself: what the device's own order of additions changes.
    """
    losses = []
    for kind in ("plain", "plain", "recorded"):
        training = build_workload(_small(settings)).training
        plain = partial(train_step_, training.state, plan=training.plan)
        step = CapturedStep(training.state, training.plan) if kind == "recorded" else plain
        losses.append(torch.stack([step(training.feed(i)).terms.total for i in range(steps)]).double().cpu())
    scale = losses[0].abs().max()
    return {
        "recorded": float((losses[2] - losses[0]).abs().max() / scale),
        "again": float((losses[1] - losses[0]).abs().max() / scale),
    }


def step_waits_for_nothing(settings: BenchSettings) -> bool:
    """Whether a step with its feed runs without the host ever waiting for the GPU."""
    training = build_workload(_small(settings)).training
    for i in range(3):
        train_step_(training.state, training.feed(i), training.plan)
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        train_step_(training.state, training.feed(3), training.plan)
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
        optimiser="lars",
    )
