import torch

from semppl.bench.photometric import time_photometric, torchvision_transform
from semppl.views.recipe import paper_recipe


def test_both_sides_are_timed_for_both_kinds_of_view():
    result = time_photometric(batch_size=4, size=24, rounds=1)
    for name in ("odd", "even"):
        row = result[name]
        assert row["times_faster"] == row["torchvision_ms"] / row["ours_ms"]
    assert result["batch"] == 4


def test_torchvisions_side_does_the_same_kind_of_work():
    _, even = paper_recipe(2, 0, 24, 24)
    transform = torchvision_transform(even, torch.zeros(3), torch.ones(3))
    torch.manual_seed(0)
    crop = torch.randint(256, (3, 24, 24), dtype=torch.uint8)
    views = torch.stack([transform(crop) for _ in range(40)])
    assert views.dtype == torch.float32
    assert views.max() <= 1
    # always blurred, mostly jittered
    assert len(views.unique(dim=0)) == 40
    assert (views.diff(dim=3).abs().mean() < (crop / 255).diff(dim=2).abs().mean()).item()
