"""The examination: which batch fits, how fast steps are, and what a run would take on one device and many."""

from dataclasses import asdict, replace
from typing import Any, Final

import torch
from rich.console import Console

from semppl.config import Config
from semppl.core.counted import counted
from semppl.doctor.largest import part_of
from semppl.doctor.projection import Links, needed_gbps, project
from semppl.doctor.settings import DoctorFlags
from semppl.doctor.shares import losses, rows_of, time_share
from semppl.doctor.subject import find_subject
from semppl.doctor.traffic import NetworkFacts, count_network, holdings, traffic
from semppl.doctor.trials import Probed, Say, Trial

WORLDS: Final = (8, 64)


def examine(
    config: Config, flags: DoctorFlags, device: torch.device, gpus: int, console: Console, say: Say
) -> dict[str, Any]:
    """Everything that needs data and networks, as plain values for the tables and the file."""
    trial = Trial(find_subject(config, device, console), device, flags, console, say)
    config, network = trial.subject.config, count_network(trial.subject.config)
    probed = trial.probe()
    largest = 0 if probed is None else probed.largest
    found: dict[str, Any] = {
        "images": trial.subject.num_images,
        "random_images": trial.subject.random,
        "encoder": config.net.encoder,
        "views": asdict(config.views),
        "batch_size": config.images_per_step,
        "micro_batch": config.micro_batch,
        "epochs": config.epochs,
        "steps": config.total_steps(trial.subject.num_images),
        "keep_checkpoints": config.keep_checkpoints,
        "network": asdict(network),
        "memory": asdict(holdings(config, network)),
        "largest_batch": largest,
        "part": part_of(config.images_per_step, largest),
        "probe": None,
        "projection": [],
        "traffic": [],
    }
    if probed is None:
        return found
    found |= {"larger_refused": probed.refused, "probe": _told(trial, probed)}
    return found | _project(trial, network, probed, max(gpus, 1))


def _told(trial: Trial, probed: Probed) -> dict[str, Any]:
    steps = probed.steps
    return {
        "batch_size": steps.images,
        "steps": len(steps.seconds),
        "seconds_per_step": steps.median,
        "images_per_second": steps.images_per_second,
        "waiting_share": steps.waiting,
        "peak_bytes": steps.peak,
        "speed": "eager" if trial.device.type == "cpu" else trial.subject.to_try(steps.images).speed,
        "loader_images_per_second": probed.loader,
        "device_images_per_second": probed.device,
    }


def _project(trial: Trial, network: NetworkFacts, probed: Probed, here: int) -> dict[str, Any]:
    config, flags = trial.subject.config, trial.flags
    links = Links(
        intra_gbps=flags.intra_gbps,
        inter_gbps=flags.inter_gbps,
        intra_us=flags.intra_us,
        inter_us=flags.inter_us,
        per_machine=8 if trial.device.type == "cuda" else 1,
    )
    worlds = [world for world in sorted({1, here, *WORLDS}) if world <= config.images_per_step]
    trial.say("the loss of the whole batch, which every device computes")
    extra = losses(trial, worlds)
    projections, sent = [], []
    for world in worlds:
        trial.say(f"a share of the batch among {world}: {counted(rows_of(trial, world), 'image')}")
        share = time_share(trial, probed, world)
        compute = share.seconds + extra[world]
        if probed.loader is not None:
            # the machine's cores read for all of its devices
            compute = max(compute, rows_of(trial, world) * here / probed.loader)
        planned = replace(config, micro_batch=share.part)
        row = project(
            planned,
            network,
            devices=world,
            compute=compute,
            num_images=trial.subject.num_images,
            links=links,
        )
        values = {"step": row.step, "hours": row.hours, "here": world <= here, "how": share.how}
        projections.append(asdict(row) | values)
        told = traffic(planned, network, world)
        more = {"total": told.total, "needed_gbps": needed_gbps(told.total, compute)}
        sent.append({"devices": world, **asdict(told), **more})
    return {"projection": projections, "traffic": sent}
