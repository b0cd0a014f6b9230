import pytest

from semppl.bench.settings import BenchFlags, filled
from semppl.core.errors import UserError
from semppl.presets import paper


def test_on_a_gpu_the_defaults_are_the_papers_step():
    settings, config = filled(BenchFlags(), "cuda"), paper()
    assert settings.encoder == config.net.encoder
    assert (settings.large, settings.small) == (config.views.large, config.views.small)
    assert settings.image_size == config.views.large_size
    assert settings.queue == config.method.queue_capacity
    assert settings.optimiser == config.optim.name


def test_a_cpu_gets_a_small_step_and_nothing_given_is_replaced():
    small = filled(BenchFlags(), "cpu")
    assert (small.encoder, small.image_size, small.batch_size) == ("resnet10", 32, 16)
    given = {
        "encoder": "resnet50",
        "image_size": 224,
        "batch_size": 256,
        "queue": 7,
        "classes": 3,
        "steps": 5,
    }
    settings = filled(BenchFlags(**given), "cpu")
    assert {name: getattr(settings, name) for name in given} == given


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "--steps is 0: it must be at least 1"),
        ({"queue": 0}, "--queue is 0"),
        ({"batch_size": 1}, "--batch-size is 1"),
        ({"large": 0}, "--large is 0"),
        ({"workers": -1}, "--workers is -1"),
        ({"parts": ()}, "nothing to measure"),
    ],
)
def test_values_that_cannot_be_measured_are_refused(changes, message):
    with pytest.raises(UserError, match=message):
        filled(BenchFlags(**changes), "cpu")
