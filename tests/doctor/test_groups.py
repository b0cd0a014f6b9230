import torch
import torch.distributed as dist

from semppl.doctor.groups import try_group

CPU = torch.device("cpu")


def test_a_group_of_one_is_made_and_left():
    for _ in range(2):
        assert try_group("gloo", CPU) is None
        assert not dist.is_initialized()


def test_a_backend_that_is_not_there_is_said():
    assert try_group("carrier-pigeon", CPU) == "this torch was built without it"


def test_a_group_that_fails_is_said_in_one_line_and_left(monkeypatch):
    def fails(tensor):
        raise RuntimeError("no route to host\nstack of frames")

    monkeypatch.setattr(dist, "all_reduce", fails)
    assert try_group("gloo", CPU) == "no route to host"
    assert not dist.is_initialized()


def test_a_gpu_is_named_by_its_number(monkeypatch):
    given = []
    monkeypatch.setattr(dist, "is_backend_available", lambda backend: True)
    monkeypatch.setattr(
        dist, "init_process_group", lambda backend, **options: given.append(options["device_id"])
    )
    monkeypatch.setattr(torch, "ones", lambda count, device: torch.zeros(count))
    monkeypatch.setattr(dist, "all_reduce", lambda tensor: tensor.fill_(1))
    for name in ("cuda", "cuda:3"):
        assert try_group("nccl", torch.device(name)) is None
    assert given == [torch.device("cuda:0"), torch.device("cuda:3")]


def test_a_wrong_sum_is_noticed(monkeypatch):
    monkeypatch.setattr(dist, "all_reduce", lambda tensor: tensor.mul_(3))
    assert try_group("gloo", CPU) == "one process added up its 1 to 3"
