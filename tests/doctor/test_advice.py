from dataclasses import replace

import pytest

from semppl.doctor.advice import about_machine, about_plan

PLAN = {
    "batch_size": 4096,
    "micro_batch": None,
    "largest_batch": 4096,
    "part": 4096,
    "epochs": 300.0,
    "keep_checkpoints": 2,
    "memory": {"checkpoint": 10**9},
    "probe": {"loader_images_per_second": None, "device_images_per_second": None},
    "projection": [{"here": True, "hours": (9.0, 10.0)}, {"here": False, "hours": (1e9, 1e9)}],
}


def about(machine, device="cuda", precision="auto", **changes):
    return about_machine(replace(machine, **changes), device, precision)


def test_nothing_is_wrong_where_nothing_is(machine):
    assert about(machine) == []
    assert about_plan(PLAN, 10**12) == []


@pytest.mark.parametrize(
    ("changes", "words", "fatal"),
    [
        ({"torchvision_problem": "no nms"}, "torchvision does not load with torch 2.11.0 (no nms)", True),
        ({"precision_problem": "no kernel"}, "H200 cannot multiply (no kernel)", True),
        ({"bf16_problem": "imitated"}, "H200 has no bf16 (imitated): give --precision fp32", False),
        ({"gpus": ()}, "torch is built for CUDA 13.0, and none can be used", False),
        ({"gpus": (), "driver": None}, "and no NVIDIA driver is loaded", False),
        ({"cuda": None, "gpus": ()}, "an NVIDIA driver (580.65.06) and torch 2.11.0 is built without", False),
        ({"shared_memory": 64 * 10**6}, "/dev/shm has 64 MB", False),
        ({"cores": 1}, "1 cores for 2 GPUs", False),
        ({"memory_free": 10**8}, "100 MB of memory are free", False),
        ({"disk_free": 10**8}, "/data has 100 MB left", False),
        ({"gloo_problem": "no host"}, "gloo says 'no host'", False),
        ({"nccl_problem": "no peer"}, "NCCL says 'no peer'", False),
    ],
)
def test_each_problem_of_a_machine_is_one_line_that_says_what_to_do(machine, changes, words, fatal):
    (problem,) = about(machine, **changes)
    assert words in problem.words
    assert "\n" not in problem.words
    assert problem.fatal is fatal


def test_bf16_matters_only_where_it_is_used(machine):
    assert about(machine, precision="fp32", bf16_problem="imitated") == []
    assert about(machine, device="cpu", bf16_problem="imitated") == []


def test_a_machine_without_shared_memory_or_gpus_is_not_blamed_for_it(machine):
    assert about(machine, "cpu", shared_memory=None, cuda=None, driver=None, gpus=(), nccl_problem="x") == []


@pytest.mark.parametrize(
    ("changes", "words", "fatal"),
    [
        ({"largest_batch": 0}, "too small even for 2 images", True),
        (
            {"largest_batch": 500, "part": 256},
            "a batch of 4,096 images does not fit here, 500 do: give --micro-batch 256, or --batch-size 500, "
            "or share it among 9 devices",
            False,
        ),
        ({"largest_batch": 500, "part": 0}, "500 do: give --batch-size 500, or share", False),
        (
            {"probe": {"loader_images_per_second": 94.0, "device_images_per_second": 100.0}},
            "reading makes 94 images/s and the device takes 100",
            False,
        ),
        ({"keep_checkpoints": 1000}, "checkpoints need 1 TB and 1 TB are left", False),
        (
            {"projection": [{"here": True, "hours": (0.0, 9000.0)}], "epochs": 1.0},
            "hopeless on this machine: 375 days for 1 epoch; use",
            False,
        ),
    ],
)
def test_each_problem_of_a_plan_is_one_line_that_says_what_to_do(changes, words, fatal):
    (problem,) = about_plan(PLAN | changes, 10**12)
    assert words in problem.words
    assert problem.fatal is fatal


def test_who_cuts_a_batch_into_parts_that_fit_hears_nothing():
    assert about_plan(PLAN | {"largest_batch": 500, "part": 256, "micro_batch": 256}, 10**12) == []
    assert len(about_plan(PLAN | {"largest_batch": 500, "part": 256, "micro_batch": 512}, 10**12)) == 1


def test_a_plan_that_was_never_probed_is_told_about_its_memory_alone():
    (problem,) = about_plan(PLAN | {"probe": None, "largest_batch": 0, "projection": []}, 10**12)
    assert problem.fatal
