import pytest

from semppl.config import from_yaml, to_yaml
from semppl.presets import PRESETS
from semppl.resolve import resolved


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_resolves_and_survives_yaml(name):
    config = resolved(PRESETS[name](), image_size=224, num_images=1_281_167)
    assert from_yaml(to_yaml(config)) == config


def test_the_paper_is_the_paper():
    c = resolved(PRESETS["paper"](), image_size=500, num_images=1_281_167)
    m = c.method
    assert (c.epochs, c.batch_size, c.peak_lr, c.total_steps(1_281_167)) == (
        300,
        4096,
        pytest.approx(4.8),
        93_835,
    )
    assert (c.views.large, c.views.small, c.views.large_size, c.views.small_size) == (4, 2, 224, 96)
    assert (m.positives, m.k, m.queue_capacity, m.negatives, m.voting) == (3, 1, 20 * 4096, 10, "all")
    assert (m.alpha, m.temperature, m.contrast_scale, m.invariance_scale) == (0.2, 0.2, 0.3, 5.0)
    assert (m.target_decay, m.target_schedule, m.minimum_votes) == (0.996, "constant", 0)
    assert (c.optim.name, c.optim.weight_decay, c.optim.warmup_epochs) == ("lars", 1e-6, 10)
    assert (c.net.encoder, c.net.head_hidden, c.net.head_outputs) == ("resnet50", 4096, 256)
    assert (c.saliency.probability, c.saliency.min_foreground) == (0.1, 0.2)
