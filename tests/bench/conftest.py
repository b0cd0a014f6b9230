import pytest

from semppl.bench.settings import BenchSettings


@pytest.fixture
def tiny():
    """A step of milliseconds."""
    return BenchSettings(
        encoder="resnet10",
        width=0.0625,
        image_size=8,
        batch_size=4,
        large=2,
        small=1,
        queue=20,
        classes=3,
        workers=0,
        steps=1,
        rounds=1,
        device="cpu",
    )
