import os

from semppl.core.cores import usable_cores


def test_there_is_at_least_one_core_and_none_that_is_not_there():
    assert 1 <= usable_cores() <= os.cpu_count()


def test_systems_without_affinity_count_all_cores(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert usable_cores() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1
