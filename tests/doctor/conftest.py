import pytest
import torch
from rich.console import Console
from tests.conftest import tiny_config

from semppl.doctor.machine import Gpu, Machine
from semppl.doctor.settings import DoctorFlags
from semppl.doctor.subject import find_subject
from semppl.doctor.trials import Trial

CPU = torch.device("cpu")


@pytest.fixture
def machine():
    """Nothing is wrong with it."""
    return Machine(
        semppl="0.1.0",
        python="3.11.7",
        platform="Linux",
        torch="2.11.0",
        torchvision="0.26.0",
        torchvision_problem=None,
        cuda="13.0",
        driver="580.65.06",
        gpus=(Gpu("H200", 141 * 10**9),) * 2,
        device="H200",
        nccl="2.28.9",
        nccl_problem=None,
        gloo_problem=None,
        precision_problem=None,
        bf16_problem=None,
        cores=32,
        memory=256 * 10**9,
        memory_free=200 * 10**9,
        shared_memory=64 * 10**9,
        disk="/data",
        disk_free=900 * 10**9,
    )


@pytest.fixture
def flags():
    return DoctorFlags(steps=3, seconds=2.0)


@pytest.fixture
def make_trial(flags):
    """Steps of milliseconds on the CPU."""

    def make(source, said=None, **changes):
        quiet = Console(quiet=True)
        subject = find_subject(tiny_config(source, **changes), CPU, quiet)
        return Trial(subject, CPU, flags, quiet, (said if said is not None else []).append)

    return make
