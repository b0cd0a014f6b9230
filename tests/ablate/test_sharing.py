import shutil

import pytest
import torch

from semppl.ablate import sharing
from semppl.ablate.sharing import sharing_advice

GPU = torch.device("cuda")


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    """Two GPUs, and the service installed but not running."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(sharing, "_USUAL_PLACE", str(tmp_path / "usual"))
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)


def test_more_cells_than_gpus():
    assert "3 cells share 2 GPUs and" in sharing_advice(GPU, 3)
    assert "nvidia-cuda-mps-control -d" in sharing_advice(GPU, 3)


def test_a_gpu_for_each_or_none_at_all():
    assert sharing_advice(GPU, 2) is None
    assert sharing_advice(torch.device("cpu"), 3) is None


def test_one_of_several_gpus():
    assert "2 cells share 1 GPU and" in sharing_advice(torch.device("cuda:1"), 2)
    assert sharing_advice(torch.device("cuda:1"), 1) is None


def test_a_machine_without_the_service(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert sharing_advice(GPU, 3) is None


def test_where_it_runs_already(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path / "own"))
    (tmp_path / "own").mkdir()
    assert sharing_advice(GPU, 3) is not None, "a place, but nobody is there"
    (tmp_path / "own" / "control").touch()
    assert sharing_advice(GPU, 3) is None
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY")
    (tmp_path / "usual").mkdir()
    (tmp_path / "usual" / "control").touch()
    assert sharing_advice(GPU, 3) is None
