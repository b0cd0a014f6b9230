from dataclasses import replace

import torch
from tests.conftest import tiny_config
from tests.train.world import in_ranks

from semppl.config import NetConfig
from semppl.core.errors import RunError, UserError
from semppl.core.rundir import RunDirectory
from semppl.train.prepare import load_for, prepared_for, require_same_everywhere, resolved_for
from semppl.train.ranks import ALONE


def test_an_encoder_of_timm_sees_what_it_can_see(npz):
    dataset = load_for(tiny_config(npz), torch.device("cpu"))
    assert resolved_for(tiny_config(npz), dataset).views.large_size == 8
    vit = tiny_config(npz, net=NetConfig(encoder="timm:vit_tiny_patch16_224"))
    views = resolved_for(vit, dataset).views
    assert (views.large_size, views.small_size) == (16, 16)
    own = replace(vit, net=replace(vit.net, pretrained=True))
    views = resolved_for(own, dataset).views
    assert (views.large_size, views.small_size) == (224, 96)


def test_what_a_run_starts_from_is_read_and_filled_in(npz, tmp_path, quiet):
    given = (tiny_config(npz), RunDirectory(tmp_path), torch.device("cpu"), quiet, None, None, ALONE)
    found = prepared_for(*given, resume=False)
    assert found.config.method.negatives == 10
    assert len(found.dataset.labels_M) == 48
    assert found.start is None
    assert set(found.facts) == {"config", "split", "data"}
    assert found.table.count("unlabelled") == 42


def compared(ranks, device, facts):
    try:
        ranks.together(lambda: require_same_everywhere(ranks, facts[ranks.share.rank]))
    except (UserError, RunError) as error:
        return f"{type(error).__name__}: {error}"
    return "fine"


def test_machines_that_see_other_files_do_not_begin():
    one, other = {"config": "a", "data": "b"}, {"config": "a", "data": "c"}
    assert in_ranks(2, compared, [one, one]) == ["fine", "fine"]
    main, second = in_ranks(2, compared, [one, other])
    assert main.startswith("Elsewhere")
    assert second.startswith("RunError: rank 1 differs from the main one in data: all machines must see")
