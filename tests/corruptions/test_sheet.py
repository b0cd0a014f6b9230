import numpy as np
import torch

from semppl.corruptions.sheet import corruption_sheet


def _image(height, width):
    ramp = torch.linspace(20, 200, width).expand(3, height, width)
    return (ramp + 40 * torch.rand(3, height, width, generator=torch.Generator().manual_seed(0))).byte()


def test_every_corruption_has_a_row_of_its_name_the_clean_image_and_five_severities():
    sheet = corruption_sheet(_image(300, 400), side=20, seed=1)
    assert sheet.size == (130 + 6 * 24, 20 + 15 * 24)
    pixels = np.asarray(sheet).astype(int)
    tiles = pixels[20:, 130:].reshape(15, 24, 6, 24, 3).transpose(0, 2, 1, 3, 4)[:, :, :20, :20]
    assert (tiles[:, :1] == tiles[0, 0]).all()
    assert len(np.unique(tiles.reshape(90, -1), axis=0)) == 75 + 1
    names = pixels[20:, :130].reshape(15, -1)
    assert len(np.unique(names, axis=0)) == 15


def test_the_seed_decides_the_sheet_and_a_small_image_is_enlarged():
    first, second = (np.asarray(corruption_sheet(_image(16, 16), side=8, seed=seed)) for seed in (0, 1))
    assert first.shape == (20 + 15 * 12, 130 + 6 * 12, 3)
    assert np.array_equal(first[:, :138], second[:, :138])
    assert not np.array_equal(first, second)
