import subprocess
import sys
from pathlib import Path

import pytest
import torch

import semppl.doctor.machine as module
from semppl.doctor.machine import cpu_name, driver_version, look_around, product_problem

CPU = torch.device("cpu")


def test_what_is_here_is_found(tmp_path):
    machine = look_around(CPU, tmp_path / "not" / "yet")
    assert machine.torch == torch.__version__
    assert machine.torchvision_problem is None
    assert machine.torchvision[0].isdigit()
    assert machine.gloo_problem is None
    assert machine.nccl_problem is None
    assert machine.cores >= 1
    assert 0 < machine.memory_free <= machine.memory
    assert machine.disk == str(tmp_path)
    assert machine.disk_free > 0


def test_a_torchvision_for_another_torch_is_noticed(monkeypatch, tmp_path):
    def load(name):
        raise RuntimeError("operator torchvision::nms does not exist\nmore")

    monkeypatch.setattr(module, "import_module", load)
    machine = look_around(CPU, tmp_path)
    assert machine.torchvision == "?"
    assert machine.torchvision_problem == "operator torchvision::nms does not exist"


def test_looking_around_does_not_need_torchvision():
    code = "import sys, semppl.doctor.run; assert 'torchvision' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_drivers_version_is_read(tmp_path):
    path = tmp_path / "version"
    assert driver_version(path) is None
    path.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 2025\nGCC 13.2.0")
    assert driver_version(path) == "580.65.06"
    path.write_text("nothing")
    assert driver_version(path) is None


def test_the_cpus_name_is_read(tmp_path):
    path = tmp_path / "cpuinfo"
    assert cpu_name(path)
    path.write_text("processor : 0\nmodel name\t: Abacus 9000\nmodel name\t: Abacus 9000\n")
    assert cpu_name(path) == "Abacus 9000"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_are_right_here(dtype):
    assert product_problem(CPU, dtype) is None


def test_a_device_that_cannot_multiply_is_noticed(monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("no kernel image is available\nfor execution")

    monkeypatch.setattr(torch, "ones", fails)
    assert product_problem(CPU, torch.float32) == "no kernel image is available"
    monkeypatch.setattr(torch, "ones", lambda *_, **__: torch.full((64, 64), torch.nan))
    assert product_problem(CPU, torch.float32) == "a product of matrices came out wrong"


def test_shared_memory_is_that_of_the_system():
    if Path("/dev/shm").is_dir():
        assert look_around(CPU, Path.cwd()).shared_memory > 0
