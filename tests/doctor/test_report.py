from dataclasses import replace

import pytest
from rich.console import Console

from semppl.doctor.advice import Problem
from semppl.doctor.report import between, machine_table, problem_lines, tables

KINDS = ("gradients", "statistics", "embeddings", "votes", "control", "total")


def row(devices, **changes):
    values = {"devices": devices, "images": 4096 // devices, "compute": 0.25, "gradients": 0.01}
    values |= {"waiting": 0.02, "hours": (10.0, 11.0), "how": "measured", "here": devices == 1}
    return values | changes


@pytest.fixture
def found():
    return {
        "images": 1_281_167,
        "random_images": True,
        "encoder": "resnet50",
        "views": {"large": 4, "large_size": 224, "small": 2, "small_size": 96},
        "batch_size": 4096,
        "epochs": 300.0,
        "largest_batch": 512,
        "larger_refused": True,
        "memory": dict.fromkeys(
            ("weights", "gradients", "optimizer", "queue", "gathered", "positives", "checkpoint"), 10**8
        ),
        "probe": {
            "batch_size": 512,
            "steps": 30,
            "seconds_per_step": 0.5,
            "images_per_second": 1024.0,
            "waiting_share": 0.031,
            "peak_bytes": 9e10,
            "speed": "graph",
            "loader_images_per_second": 1500.0,
            "device_images_per_second": 1100.0,
        },
        "traffic": [{"devices": n, "needed_gbps": 123.0, **dict.fromkeys(KINDS, 2e8)} for n in (1, 8, 64)],
        "projection": [row(1, hours=(12.0, 12.0)), row(8), row(64, how="in parts")],
    }


def text_of(found, width=80):
    console = Console(width=width, record=True)
    for table in tables(found):
        console.print(table)
    return console.export_text()


@pytest.mark.parametrize("width", [80, 120])
def test_every_number_is_shown_in_a_narrow_window_too(found, width):
    text = text_of(found, width)
    for words in (
        "median of 30",
        "1,024",
        "3.1 %",
        "90 GB",
        "512 images",
        "the device",
        "8 devices",
        "200 MB",
        "123 Gbit/s",
        "10–11 h",
        "12 h",
        "in parts",
        "recorded, not compiled",
        "100 MB",
    ):
        assert words in " ".join(text.split()), words
    assert "…" not in text
    assert "1 devices" not in text


def test_who_holds_up_whom(found):
    found["probe"]["loader_images_per_second"] = 900.0
    assert "reading  " in text_of(found)
    found["probe"] |= {"loader_images_per_second": None, "device_images_per_second": None}
    assert "reading" not in text_of(found)


def test_a_batch_that_nobody_refused_may_be_larger_unless_it_is_everything(found):
    assert "512 images or more" in text_of(found | {"larger_refused": False})
    assert "all 512 images" in text_of(found | {"larger_refused": False, "images": 512})


def test_nothing_is_shown_of_what_was_never_probed(found):
    assert text_of(found | {"probe": None}) == ""


def test_two_durations_are_one_where_they_can():
    assert between("2 h", "2 h") == "2 h"
    assert between("2 h", "3 h") == "2–3 h"
    assert between("119 s", "2 min") == "119 s – 2 min"


def test_the_machine_is_described(machine):
    console = Console(width=100, record=True)
    console.print(machine_table(machine))
    text = console.export_text()
    for words in ("H200, 141 GB; H200, 141 GB", "2.28.9, works", "32, 200 GB of 256 GB free", "900 GB free"):
        assert words in text
    console.print(machine_table(replace(machine, gpus=(), nccl=None, gloo_problem="x", shared_memory=None)))
    text = console.export_text()
    for words in ("does not work: x", "used on GPUs alone", "none"):
        assert words in text
    console.print(machine_table(replace(machine, gpus=())))
    assert "not tried without a GPU" in console.export_text()


def test_the_worst_comes_first():
    problems = [Problem("small"), Problem("large", fatal=True)]
    assert problem_lines(problems) == ["! large", "! small"]
