import torch

from semppl.bench.workload import build_workload, without_positives
from semppl.train.step import train_step_


def test_a_workload_is_the_step_that_was_asked_for(tiny):
    workload = build_workload(tiny)
    batch = workload.training.feed(0)
    assert [crop.shape for crop in batch.crops] == [(4, 3, 8, 8), (4, 3, 8, 8), (4, 3, 4, 4)]
    queue = workload.training.state.queue
    assert queue is not None
    assert queue.embeddings_VCD.shape[:2] == (2, 20)
    assert workload.config.optim.name == "lars"
    assert workload.training.speed == "eager"
    assert torch.isfinite(train_step_(workload.training.state, batch, workload.training.plan).terms.total)


def test_without_positives_the_networks_are_the_same_ones_and_nothing_votes(tiny):
    workload = build_workload(tiny)
    plain = without_positives(workload, tiny)
    assert plain.training.state.online is workload.training.state.online
    assert workload.training.state.queue is not None
    outcome = plain.training.step(plain.training.feed(0))
    assert outcome.votes is None
    assert outcome.terms.semantic == 0
    assert outcome.terms.invariance_augmentation > 0
