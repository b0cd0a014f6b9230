from semppl.bench.settings import BenchSettings
from semppl.presets import paper


def test_the_defaults_are_the_papers_step_at_a_batch_for_one_gpu():
    settings, config = BenchSettings(), paper()
    assert settings.encoder == config.net.encoder
    assert (settings.large, settings.small) == (config.views.large, config.views.small)
    assert settings.image_size == config.views.large_size
    assert settings.queue == config.method.queue_capacity
    assert settings.optimiser == config.optim.name
