import json

import pytest

from semppl.core.errors import UserError
from semppl.saliency.index import Index, Row
from semppl.saliency.place import Place, clear_, require_ours, require_same

SETTINGS = {"sources": ["a", "b"], "refined": False, "threshold": 0.5}


@pytest.fixture
def place(tmp_path):
    (tmp_path / "masks").mkdir()
    place = Place(tmp_path)
    place.write_record(SETTINGS, images=3)
    return place


def test_the_record_says_how_the_masks_were_made(place):
    said = json.loads((place.path / "masks.json").read_text())
    assert said == place.record()
    assert (said["settings"], said["images"]) == (SETTINGS, 3)
    assert {"semppl", "numpy"} <= set(said["versions"])


@pytest.mark.parametrize("text", ["", "[]", "{}", "{"])
def test_a_damaged_record_is_named(place, text):
    place.about.write_text(text)
    with pytest.raises(UserError, match=r"masks.json is damaged: use --overwrite"):
        place.record()


def test_only_an_empty_folder_or_ours_is_taken(tmp_path, place):
    require_ours(place)
    require_ours(Place(tmp_path / "none"))
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / ".lock").write_text("")
    require_ours(Place(tmp_path / "new"))
    (tmp_path / "new" / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match=r"holds something else \(mine.txt\)"):
        require_ours(Place(tmp_path / "new"))
    with pytest.raises(UserError, match="is a file"):
        require_ours(Place(tmp_path / "new" / "mine.txt"))


def test_other_settings_are_refused_by_name(place):
    require_same(place, SETTINGS)
    require_same(Place(place.path / "none"), SETTINGS)
    with pytest.raises(UserError, match="was made with fused masks, and this command asks for refined masks"):
        require_same(place, {**SETTINGS, "refined": True})
    with pytest.raises(
        UserError, match="made with sources a, b, and this command asks for sources a: use --over"
    ):
        require_same(place, {**SETTINGS, "sources": ["a"]})


def test_clearing_removes_ours_alone(place):
    for name in ("1.png", "cats/old/2.png", "dogs/3.png", "dogs/mine.txt"):
        (place.masks / name).parent.mkdir(parents=True, exist_ok=True)
        (place.masks / name).write_text("x")
    with Index(place.index, place.masks).open() as index:
        for name in ("1.png", "cats/old/2.png", "dogs/3.png"):
            index.add_(Row("a" * 32, name, 1, 1, 0))
    place.maps.mkdir(parents=True)
    for file in (place.sheet, place.refiner, place.bad, place.scores, place.path / "notes.txt"):
        file.write_text("x")
    clear_(place)
    left = {path.relative_to(place.path).as_posix() for path in place.path.rglob("*") if path.is_file()}
    assert left == {"masks.json", "notes.txt", "masks/dogs/mine.txt"}
    assert not (place.masks / "cats").exists()
    clear_(place)


def test_data_whose_name_is_no_valid_text_are_remembered(place):
    place.write_record(SETTINGS, data="photos\udcff")
    said = place.record()
    assert said is not None
    assert said["data"] == "photos\udcff"
