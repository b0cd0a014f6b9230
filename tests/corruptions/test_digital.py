import pytest
import torch
from torch.nn import functional as F

from semppl.corruptions.digital import contrast, elastic_transform, jpeg_compression, pixelate


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("severity", "left"), [(1, 0.4), (2, 0.3), (3, 0.2), (4, 0.1), (5, 0.05)])
def test_contrast_is_kept_in_part_around_the_mean_of_each_channel(severity, left):
    x = torch.tensor([[0.0, 1.0], [0.2, 0.4], [0.5, 0.5]])[:, None]
    expected = torch.tensor([[0.5, 0.5], [0.3, 0.3], [0.5, 0.5]])[:, None]
    deviation = torch.tensor([[-0.5, 0.5], [-0.1, 0.1], [0, 0]])[:, None]
    assert torch.allclose(contrast(x, severity, _generator()), expected + left * deviation)


@pytest.mark.parametrize("change", [contrast, elastic_transform, pixelate, jpeg_compression])
@pytest.mark.parametrize("shape", [(40, 50), (1, 1), (1, 30)])
def test_grey_stays_grey(change, shape):
    x = torch.full((3, *shape), 128 / 255)
    assert torch.allclose(change(x, 5, _generator()), x, atol=1e-5)


@pytest.mark.parametrize(("severity", "farthest"), [(1, 2.9), (3, 5.9), (5, 10.5)])
def test_elastic_shifts_are_as_large_as_stated(severity, farthest):
    # of a ramp of one level a pixel the shift can be read, away from the mirrored edge
    x = torch.arange(224.0).expand(3, 224, 224)
    shift = (elastic_transform(x, severity, _generator()) - x)[0, :, 20:-20]
    # bicubic waves overshoot their random heights a little
    assert shift.abs().max() < 1.25 * farthest
    assert shift.abs().max() > 0.4 * farthest


def test_elastic_shifts_grow_with_the_image():
    spread = []
    for side in (224, 672):
        ramp = torch.arange(float(side)).expand(3, side, side)
        shift = (elastic_transform(ramp, 4, _generator()) - ramp)[0]
        spread.append(shift[:, side // 8 : -side // 8].std() / side)
    assert spread[0] == pytest.approx(spread[1].item(), rel=0.1)


@pytest.mark.parametrize(("side", "severity", "block"), [(224, 2, 2), (224, 5, 4), (448, 2, 4), (672, 5, 12)])
def test_pixels_become_means_of_blocks(side, severity, block):
    x = torch.rand(3, side, side)
    expected = F.avg_pool2d(x, block).repeat_interleave(block, 1).repeat_interleave(block, 2)
    assert torch.allclose(pixelate(x, severity, _generator()), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("side", "left"), [(224, (134, 112, 89, 67, 56)), (32, (29, 28, 26, 24, 22)), (1, (1, 1, 1, 1, 1))]
)
def test_so_many_pixels_are_left(side, left):
    x = torch.rand(3, side, side)
    for severity, number in enumerate(left, start=1):
        few = pixelate(x, severity, _generator())
        assert len(few[0].unique(dim=0)) == number
        assert len(few[0].T.unique(dim=0)) == number
        assert torch.allclose(few.mean((1, 2)), x.mean((1, 2)), atol=1e-5)
        assert torch.allclose(pixelate(few, severity, _generator()), few, atol=1e-6)


@pytest.mark.parametrize(("severity", "level"), [(1, 140), (5, 142)])
def test_jpeg_rounds_the_mean_of_a_block_by_its_quality(severity, level):
    # 8·(140 − 128) = 96 is 3 steps of 32 at quality 25, and nearest to 1 step of 114 at quality 7
    x = torch.full((3, 16, 16), 140 / 255)
    assert torch.allclose(255 * jpeg_compression(x, severity, _generator()), torch.tensor(float(level)))


def test_jpeg_of_low_quality_leaves_a_faint_pattern_out():
    x = torch.full((3, 16, 16), 128.0)
    x[:, ::2, ::2] += 8
    x[:, 1::2, 1::2] -= 8
    assert (255 * jpeg_compression(x / 255, 5, _generator())).std() == 0
