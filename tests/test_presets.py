from dataclasses import replace

import pytest

from semppl.config import (
    Config,
    DataConfig,
    MethodConfig,
    NetConfig,
    OptimConfig,
    ViewsConfig,
    from_yaml,
    to_yaml,
)
from semppl.presets import PRESETS
from semppl.resolve import resolved


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_resolves_and_survives_yaml(name):
    config = resolved(PRESETS[name](), image_size=224, num_images=1_281_167)
    assert from_yaml(to_yaml(config)) == config


def test_the_cifar_preset_is_what_was_searched():
    """The run of docs/results/tuning.md, at 50,000 images: all that the search left open is written down."""
    searched = Config(
        epochs=200.0,
        batch_size=512,
        data=DataConfig(labels_per_class=400),
        views=ViewsConfig(large=2, small=0, min_area=0.2, crop_probability=0.8),
        net=NetConfig(last_scale=1.0),
        method=MethodConfig(
            alpha=1.0,
            minimum_votes=4,
            negatives=128,
            contrast_scale=1.0,
            invariance_scale=1.0,
            queue_initial_labels="none",
        ),
        optim=OptimConfig(name="sgd", weight_decay=5e-4),
    )
    theirs = resolved(searched, image_size=32, num_images=50_000)
    ours = resolved(PRESETS["cifar10-4000"](), image_size=32, num_images=50_000)
    assert theirs.method.target_decay == pytest.approx(0.996, abs=2e-4)
    method = replace(theirs.method, target_decay=0.996)
    assert ours == replace(theirs, method=method, probe_every=50.0, checkpoint_every=50.0)


@pytest.mark.parametrize(("name", "per_class", "labelled"), [("cifar10-250", 25, 32), ("cifar10-40", 4, 16)])
def test_presets_for_few_labels_are_what_was_searched(name, per_class, labelled):
    """As the runs of docs/results/tuning.md: the preset for 4,000 labels, with these flags alone."""
    many, few = PRESETS["cifar10-4000"](), PRESETS[name]()
    assert few == replace(
        many,
        data=DataConfig(labels_per_class=per_class, labelled_fraction=labelled / 512),
        method=replace(many.method, alpha=0.5, queue_capacity=640),
    )


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
