import json

import numpy as np
import pytest
from tests.report.conftest import BALLOTS, BYTES_FILE, EVIL_FILE, bare_run, write_advice, write_exhibit

from semppl.report.exhibit import read_advice, read_exhibit, read_features
from semppl.report.gaps import Damaged


@pytest.fixture
def folder(tmp_path):
    bare_run(tmp_path)
    write_exhibit(tmp_path, labelled=3, sampled=9, gallery=4)
    return tmp_path / "exhibit"


def test_all_of_it_is_read(folder):
    found = read_exhibit(folder)
    assert (found.step, found.ballots, len(found.names_T), len(found.image_N)) == (100, BALLOTS, 12, 9)
    assert found.names_T[3:5] == (EVIL_FILE, BYTES_FILE)
    assert [card.of for card in found.gallery] == [0, 1, 2, 3]
    assert all(len(card.voters_J) == len(card.ballots_J) == BALLOTS for card in found.gallery)
    assert read_features(folder, 9).shape == (9, 8)


def test_a_run_without_a_queue(tmp_path):
    bare_run(tmp_path)
    write_exhibit(tmp_path, queue=False, sampled=4)
    found = read_exhibit(tmp_path / "exhibit")
    assert found.gallery == ()
    assert set(found.vote_N) == {-1}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("sample", "image", 0), 12),
        (("sample", "image", 0), -1),
        (("sample", "vote", 0), 3),
        (("sample", "votes", 0), BALLOTS + 1),
        (("sample", "tied"), [0]),
        (("sample", "right", 0), 2),
        (("sample", "x", 0), "1"),
        (("sample", "y", 0), float("nan")),
        (("images", "label", 0), "dog"),
        (("images", "role", 0), "<b>"),
        (("images", "name"), None),
        (("tiles", "sheets", 0), "../../secret.png"),
        (("tiles", "sheets"), []),
        (("tiles", "columns"), 0),
        (("tiles", "side"), True),
        (("gallery", 0, "of"), 9),
        (("gallery", 0, "voters"), []),
        (("gallery", 0, "voters", 0), [[12, 0.5]]),
        (("gallery", 0, "voters", 0), [[1]]),
        (("gallery", 0, "positives", 0), 12),
        (("gallery", 0), 7),
        (("explained",), 1),
        (("epoch",), None),
        (("version",), 2),
        (("sample",), []),
        (("tiles",), "x"),
    ],
)
def test_whatever_is_wrong_is_damage(folder, place, value):
    file = folder / "exhibit.json"
    content = json.loads(file.read_text())
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    file.write_text(json.dumps(content))
    with pytest.raises(Damaged):
        read_exhibit(folder)


def test_features_that_do_not_fit(folder):
    with pytest.raises(Damaged, match="does not fit 8 images"):
        read_features(folder, 8)
    np.savez(folder / "features.npz", features_NP=np.array([{}] * 9, dtype=object))
    with pytest.raises(Damaged, match=r"features.npz cannot be read \(ValueError\)"):
        read_features(folder, 9)
    (folder / "features.npz").write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(Damaged, match=r"features.npz cannot be read"):
        read_features(folder, 9)
    (folder / "features.npz").unlink()
    with pytest.raises(Damaged, match=r"\(FileNotFoundError\)"):
        read_features(folder, 9)


def test_thumbnails_of_advice(folder):
    write_advice(folder.parent)
    assert read_advice(folder).names[0] == EVIL_FILE
    (folder / "advice.json").write_text('{"version": 1, "name": ["a"]}')
    with pytest.raises(Damaged, match=r"advice.json is damaged"):
        read_advice(folder)
