import cv2
import numpy as np
import pytest

from semppl.saliency.baselines import BASELINES, centre, everything, spectral_residual


def noise(height, width):
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (50, 1), (2, 3), (31, 47)])
def test_a_map_of_the_images_size_from_0_to_1(name, shape):
    for image in (noise(*shape), np.zeros((*shape, 3), np.uint8), np.full((*shape, 3), 255, np.uint8)):
        found = BASELINES[name](image)
        assert found.shape == shape
        assert found.dtype == np.float32
        assert 0 <= found.min() <= found.max() <= 1


def test_the_centre_prior_by_hand():
    found = centre(noise(3, 5))
    # the rows lie at −1/3, 0 and 1/3 of the height: one standard deviation; the columns at 0, ±1/5 and ±2/5
    assert found[1, 2] == 1
    assert found[0, 2] == pytest.approx(np.exp(-0.5))
    assert found[1, 0] == pytest.approx(np.exp(-((2 / 5 * 3) ** 2) / 2))
    assert found[2, 4] == pytest.approx(found[0, 2] * found[1, 0])


def test_the_centre_prior_does_not_look_at_the_image_and_is_symmetric():
    found = centre(noise(20, 30))
    assert (found == centre(np.zeros((20, 30, 3), np.uint8))).all()
    assert np.allclose(found, found[::-1])
    assert np.allclose(found, found[:, ::-1])


def test_all_is_foreground():
    assert (everything(noise(4, 6)) == 1).all()


def test_the_spectral_residual_is_opencvs_of_the_image_in_its_order_of_colours():
    image = noise(40, 60)
    _, theirs = cv2.saliency.StaticSaliencySpectralResidual_create().computeSaliency(
        cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
    )
    assert (spectral_residual(image) == theirs).all()


def test_the_spectral_residual_finds_a_dot_and_nothing_in_a_single_colour():
    image = np.full((64, 64, 3), 90, np.uint8)
    assert (spectral_residual(image) == 0).all()
    image[20:24, 40:44] = 255
    found = spectral_residual(image)
    row, column = np.unravel_index(found.argmax(), found.shape)
    assert 18 <= row <= 25
    assert 38 <= column <= 45
