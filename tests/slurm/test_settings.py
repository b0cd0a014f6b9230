import pytest

from semppl.core.errors import UserError
from semppl.slurm.settings import SlurmFlags, wanted, without_slurm


@pytest.mark.parametrize(
    ("flags", "tasks", "world"),
    [
        ({}, 8, 8),
        ({"slurm_nodes": 4}, 8, 32),
        ({"slurm_gpus": 0}, 1, 1),
        ({"slurm_gpus": 0, "slurm_tasks": 3, "slurm_nodes": 2}, 3, 6),
        ({"slurm_tasks": 2}, 2, 2),
    ],
)
def test_one_process_for_each_gpu_unless_said_otherwise(flags, tasks, world):
    given = SlurmFlags(slurm=True, **flags)
    assert (given.tasks, given.world) == (tasks, world)
    assert wanted(given)


def test_nothing_is_wanted_by_default():
    assert not wanted(SlurmFlags())


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"slurm_nodes": 0}, "--slurm-nodes is 0: it must be at least 1"),
        ({"slurm_gpus": -1}, "--slurm-gpus is -1: it must be at least 0"),
        ({"slurm_tasks": 0}, "--slurm-tasks is 0: it must be at least 1"),
        ({"slurm_cpus": 0}, "--slurm-cpus is 0: it must be at least 1"),
        ({"slurm_hours": 0.0}, "--slurm-hours is 0: it must be from 0.1"),
        ({"slurm_hours": float("nan")}, "--slurm-hours is nan"),
        ({"slurm_hours": float("inf")}, "--slurm-hours is inf"),
        ({"slurm": False, "slurm_nodes": 2}, "--slurm-nodes says how a job runs: give --slurm, too"),
    ],
)
def test_numbers_that_cannot_be_meant(flags, words):
    with pytest.raises(UserError, match=words):
        wanted(SlurmFlags(**{"slurm": True, **flags}))


def test_the_command_without_the_job():
    words = (
        "pretrain a.npz --slurm --slurm-nodes 2 --out x --slurm_gpus=0 --seed 3 --slurm-account --no-slurm y"
    )
    rest, mine = without_slurm(words.split())
    assert rest == ["pretrain", "a.npz", "--out", "x", "--seed", "3", "y"]
    assert mine == ["--slurm", "--slurm-nodes", "2", "--slurm_gpus=0", "--slurm-account", "--no-slurm"]
    assert without_slurm(rest) == (rest, [])
