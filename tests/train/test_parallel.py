import pytest
import torch
from tests.train.test_state import training
from tests.train.world import in_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from semppl.nets.shared_norm import SharedBatchNorm
from semppl.train.encode import PLAIN, Predict
from semppl.train.parallel import spread_
from semppl.train.ranks import ALONE


def test_alone_nothing_changes(npz):
    state = training(npz).state
    before = state.predict
    spread_(state, ALONE, None)
    assert state.predict is before


def spread(ranks, device, npz, norm_ranks):
    """Ranks that start from other weights, and whose losses are one and two times the same."""
    state = training(npz, seed=ranks.share.rank).state
    spread_(state, ranks, norm_ranks)
    kinds = {type(m) for m in (*state.predict.modules(), *state.target.module.modules())}
    weight = next(state.online.parameters())
    start, images = (
        weight.detach().clone(),
        torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)),
    )
    plain = Predict(state.online, state.predictor)
    own = torch.autograd.grad((plain([images], PLAIN, None)[..., 0]).sum(), weight)[0]
    loss = state.predict([images], PLAIN, None)[..., 0].sum()
    (loss * (ranks.share.rank + 1)).backward()
    return {
        "parallel": isinstance(state.predict, DistributedDataParallel),
        "shared": SharedBatchNorm in kinds,
        "plain": nn.BatchNorm2d in kinds,
        "start": start,
        "gradient": weight.grad.clone(),
        "own": own,
    }


@pytest.mark.parametrize("norm_ranks", [None, 1])
def test_ranks_start_alike_and_end_with_the_same_gradient(npz, norm_ranks):
    first, second = in_ranks(2, spread, str(npz), norm_ranks)
    assert first["parallel"]
    assert (first["shared"], first["plain"]) == ((True, False) if norm_ranks is None else (False, True))
    assert torch.equal(first["start"], second["start"])
    assert torch.equal(first["gradient"], second["gradient"])


def test_gradients_are_added_up_and_not_averaged(npz):
    for rank in in_ranks(2, spread, str(npz), 1):
        assert torch.allclose(rank["gradient"], 3 * rank["own"], rtol=1e-4, atol=1e-6)
        assert rank["own"].abs().max() > 0
