"""What was found as tables for people."""

from collections.abc import Iterator
from typing import Any, Final

from rich.table import Table

from semppl.core.counted import counted
from semppl.doctor.advice import Problem
from semppl.doctor.machine import Machine
from semppl.doctor.words import duration, size, three

_KINDS: Final = {
    "gradients": "gradients",
    "statistics": "batch statistics",
    "embeddings": "embeddings",
    "votes": "votes",
    "control": "control",
    "total": "together",
}
_HOW: Final = {
    "scaled": "by a line through two batches that were measured",
    "in parts": "with --micro-batch, as the memory is too small otherwise, and scaled by the images",
}


def machine_table(machine: Machine) -> Table:
    """What is here."""
    table = _table("this machine", "what", "found")
    gpus = "; ".join(f"{gpu.name}, {size(gpu.memory)}" for gpu in machine.gpus)
    shared = "none" if machine.shared_memory is None else size(machine.shared_memory)
    rows = {
        "semppl, Python": f"{machine.semppl}, {machine.python} on {machine.platform}",
        "torch, torchvision": f"{machine.torch}, {machine.torchvision}",
        "CUDA, driver": f"{machine.cuda or 'none'}, {machine.driver or 'none'}",
        "GPUs": gpus or "none",
        "probed device": machine.device,
        "bf16": _works(machine.bf16_problem) + ("" if machine.gpus else "; used on GPUs alone"),
        "gloo": _works(machine.gloo_problem),
        "NCCL": _nccl(machine),
        "cores, memory": f"{machine.cores}, {size(machine.memory_free)} of {size(machine.memory)} free",
        "/dev/shm": shared,
        "disk": f"{size(machine.disk_free)} free at {machine.disk}",
    }
    for what, words in rows.items():
        table.add_row(what, words)
    return table


def _works(problem: str | None) -> str:
    return "works" if problem is None else f"does not work: {problem}"


def _nccl(machine: Machine) -> str:
    if machine.nccl is None:
        return "none"
    return f"{machine.nccl}, " + (_works(machine.nccl_problem) if machine.gpus else "not tried without a GPU")


def tables(found: dict[str, Any]) -> Iterator[Table]:
    """All others."""
    if found["probe"] is None:
        return
    yield probe_table(found)
    yield memory_table(found)
    yield traffic_table(found)
    yield projection_table(found)


def probe_table(found: dict[str, Any]) -> Table:
    """Steps of one device."""
    probe, views = found["probe"], found["views"]
    kind = "random images" if found["random_images"] else "your images"
    sizes = f"{views['large']} × {views['large_size']} px"
    sizes += f" + {views['small']} × {views['small_size']} px" if views["small"] else ""
    table = _table(f"probe: {found['encoder']}, {sizes}, {kind}, {probe['speed']}", "what", "measured")
    table.add_row(
        f"step of {probe['batch_size']:,} images, median of {probe['steps']}",
        duration(probe["seconds_per_step"]),
    )
    table.add_row("images/s", three(probe["images_per_second"]))
    table.add_row("of the time, waiting for data", f"{100 * probe['waiting_share']:.1f} %")
    loader, device = probe["loader_images_per_second"], probe["device_images_per_second"]
    if loader is not None and device is not None:
        table.add_row("reading alone, images/s", three(loader))
        table.add_row("device alone, images/s", three(device))
        table.add_row("what holds the other up", "reading" if loader < device else "the device")
    table.add_row("peak memory", size(probe["peak_bytes"]))
    all_of_them = found["largest_batch"] >= found["images"]
    more = "" if found["larger_refused"] or all_of_them else " or more"
    most = f"{'all ' if all_of_them else ''}{found['largest_batch']:,} images{more}"
    table.add_row("largest safe batch", most)
    if probe["speed"] == "graph":
        table.caption = "recorded, not compiled: long runs are compiled and faster (--speed compile: minutes)"
    return table


def memory_table(found: dict[str, Any]) -> Table:
    """What every device holds, from the formulas of docs/scale.md."""
    held = found["memory"]
    table = _table("held by each device beside activations (counted)", "what", "bytes")
    names = {
        "weights": "online and target network",
        "gradients": "gradients",
        "optimizer": "optimiser",
        "queue": "queue",
        "gathered": "embeddings of the whole batch",
        "positives": "positives of the whole batch",
        "checkpoint": "on disk: a checkpoint",
    }
    for key, words in names.items():
        table.add_row(words, size(held[key]))
    return table


def traffic_table(found: dict[str, Any]) -> Table:
    """Bytes."""
    rows = found["traffic"]
    titles = [f"{row['devices']} devices" for row in rows if row["devices"] > 1]
    table = _table("sent by each device in a step (counted)", "kind", *titles)
    for key, words in _KINDS.items():
        table.add_row(words, *(size(row[key]) for row in rows if row["devices"] > 1))
    needed = [f"{three(row['needed_gbps'])} Gbit/s" for row in rows if row["devices"] > 1]
    table.add_row("at 5 % of the step", *needed)
    return table


def projection_table(found: dict[str, Any]) -> Table:
    """Time of the run."""
    epochs = counted(f"{found['epochs']:g}", "epoch")
    title = f"{epochs} of {found['images']:,} images in batches of {found['batch_size']:,}"
    table = _table(title, "devices", "images", "compute", "messages", "gradients", "the run", "compute is")
    for row in found["projection"]:
        alone = row["devices"] == 1
        told = ("–", "–") if alone else (duration(row["waiting"]), duration(row["gradients"]))
        run = between(*(duration(3600 * hours) for hours in row["hours"]))
        table.add_row(
            f"{row['devices']}", f"{row['images']:,}", duration(row["compute"]), *told, run, row["how"]
        )
    table.caption = (
        "For one device and step: its images, its computing, the messages that it waits for, and the sum of "
        "the gradients, which may hide behind computing (the shorter time of the run). Messages are counted, "
        "and links are as fast as the flags say."
    )
    for how, words in _HOW.items():
        if any(row["how"] == how for row in found["projection"]):
            table.caption += f" {how.capitalize()}: {words}."
    return table


def between(least: str, most: str) -> str:
    """Two durations as one."""
    if least == most:
        return least
    unit = least.rpartition(" ")[2]
    return f"{least.removesuffix(f' {unit}')}–{most}" if most.endswith(f" {unit}") else f"{least} – {most}"


def problem_lines(problems: list[Problem]) -> list[str]:
    """One for each, the worst first."""
    return [f"! {problem.words}" for problem in sorted(problems, key=lambda each: not each.fatal)]


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", caption_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i and len(columns) > 2 else "left")
    return table
