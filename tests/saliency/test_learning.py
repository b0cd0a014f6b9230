from functools import partial

import numpy as np
import pytest
import torch
from tests.saliency.stubs import Network, save, square_image, use_brightness

from semppl.core.errors import UserError
from semppl.saliency.items import items_of
from semppl.saliency.learning import learnt_refiner, refined_maps, refined_outcomes
from semppl.saliency.making import Part
from semppl.saliency.place import Place
from semppl.saliency.team import team


@pytest.fixture
def calls(monkeypatch):
    return use_brightness(monkeypatch)


@pytest.fixture
def crew():
    with team(0, begin=print, goes_on="go on") as crew:
        yield crew


def learn(items, place, crew, most=3, told=None):
    advance = (lambda *_: None) if told is None else lambda *words: told.append(words)
    return learnt_refiner(items, place, crew, most=most, device=torch.device("cpu"), seed=7, advance=advance)


def test_it_learns_once_from_images_of_the_whole_data(tmp_path, calls, crew):
    for i in range(9):
        save(tmp_path / "data" / f"{i}.png", square_image(16, 16, share=i / 8))
    items, place, told = items_of(str(tmp_path / "data"), None), Place(tmp_path / "place"), []
    assert isinstance(learn(items, place, crew, told=told), Network)
    assert calls[-1] == ("trained", 3, 7, place.training)
    assert len(calls) == 4
    assert told == [
        ("estimating for the network", 3, 3),
        ("reading for the network", 9, 9),
        ("learning", 1, 1),
    ]
    before = Network.loads
    learn(items, place, crew)
    assert (Network.loads, len(calls)) == (before + 1, 4)
    assert [path.name for path in place.path.iterdir() if path.is_file()] == ["refiner.pt"]


def test_an_end_before_the_network_is_there_keeps_the_estimates(tmp_path, calls, crew, monkeypatch):
    save(tmp_path / "data" / "a.png", square_image(16, 16))
    items, place = items_of(str(tmp_path / "data"), None), Place(tmp_path / "place")
    with monkeypatch.context() as patch:
        patch.setattr(Network, "save", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            learn(items, place, crew)
    learn(items, place, crew)
    assert len([call for call in calls if call[0] == "trained"]) == 2
    assert len(calls) == 3


class Stopped(Exception):
    pass


class Interrupted:
    """A crew to which a signal comes before its n-th look for one."""

    def __init__(self, crew, looks):
        self.over, self._left = crew.over, looks

    def check(self):
        self._left -= 1
        if not self._left:
            raise Stopped


@pytest.mark.parametrize("looks", [1, 2, 3])
def test_a_signal_ends_each_stage_before_half_of_its_results_are_used(looks, tmp_path, calls, crew):
    save(tmp_path / "data" / "a.png", square_image(16, 16))
    items, place = items_of(str(tmp_path / "data"), None), Place(tmp_path / "place")
    with pytest.raises(Stopped):
        learn(items, place, Interrupted(crew, looks))
    assert not [call for call in calls if call[0] == "trained"]
    assert not place.refiner.exists()


def test_nothing_to_learn_from_is_refused(tmp_path, calls, crew):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.png").write_bytes(b"no")
    with pytest.raises(UserError, match=r"^1 image, none of which can be read, such as a.png"):
        learn(items_of(str(tmp_path / "data"), None), Place(tmp_path / "place"), crew)


def test_maps_of_the_network_are_8_bit():
    images = np.stack([np.full((3, 16, 16), level, np.uint8) for level in (0, 128, 255)])
    maps = refined_maps(Network(), images)
    assert maps.dtype == np.uint8
    assert maps[:, 0, 0].tolist() == [0, 128, 255]
    assert refined_maps(Network(), images[:0]).shape == (0, 16, 16)


@pytest.mark.parametrize("workers", [0, 2])
def test_processes_read_and_write_around_the_network(workers, tmp_path, calls):
    for i in range(5):
        save(tmp_path / "data" / f"{i}.png", square_image(32, 48, share=i / 4))
    (tmp_path / "data" / "2.png").write_bytes(b"no")
    items = items_of(str(tmp_path / "data"), None)
    parts = (Part(part, str(tmp_path / "masks"), None) for part in items.parts(range(5), 2))
    with team(workers, begin=partial(int, 0), goes_on="go on") as crew:
        outcomes = [outcome for some in refined_outcomes(Network(), crew, parts) for outcome in some]
    shares = {outcome.name: outcome.foreground for outcome in outcomes if not outcome.problem}
    assert shares == {"0.png": 0, "1.png": 0.25, "3.png": 0.75, "4.png": 1}
    assert [outcome.name for outcome in outcomes if outcome.problem] == ["2.png"]
    assert len(list((tmp_path / "masks").iterdir())) == 4
