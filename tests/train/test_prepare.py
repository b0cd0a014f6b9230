from dataclasses import replace

import torch
from tests.conftest import tiny_config
from tests.train.world import in_ranks

from semppl.config import Config, NetConfig, to_yaml
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
    config = Config(source="/a/b.npz", seed=3)
    one = {"config": to_yaml(config), "split": "s", "data": "d"}
    moved = one | {"config": to_yaml(replace(config, source="/elsewhere/b.npz", device="cuda:1"))}
    assert in_ranks(2, compared, [one, moved]) == ["fine", "fine"]
    for other, what in (
        (one | {"data": "x"}, "images"),
        (one | {"config": to_yaml(replace(config, seed=4))}, "seed"),
    ):
        main, second = in_ranks(2, compared, [one, other])
        assert main.startswith("Elsewhere")
        assert second.startswith(f"RunError: rank 1 differs from the main one in {what}: all machines must")
