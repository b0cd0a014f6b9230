import numpy as np
import pytest
import torch
from tests.train.test_gallery import subject
from tests.train.test_state import same

from semppl.config import DataConfig
from semppl.core.drawing import NEUTRAL, RIGHT, WRONG
from semppl.train import sheet
from semppl.train.provenance import NO_IMAGE
from semppl.train.sheet import Row, drawn, positives_sheet


def colour(words):
    return tuple(bytes.fromhex(words[1:]))


def flat(level):
    return torch.full((3, 64, 64), level, dtype=torch.uint8)


def test_an_image_its_voters_and_its_positives_stand_in_a_row():
    rows = [
        Row(0, "cat, 3 of 4", 1, [(5, "cat (3)", True), (NO_IMAGE, "dog (1)", False)], [5, 6, 5]),
        Row(1, "no vote", None, [], []),
        Row(2, "dog, 4 of 4", 0, [(6, "dog (4)", True)], [6]),
    ]
    picture = drawn(rows, {i: flat(10 * i) for i in (0, 1, 2, 5, 6)})
    cell, pitch = 74, 88
    voters, positives = 24 + 24 + 2 * cell, 24 * 3 + cell * 6

    def at(left, row):
        """Frame and content."""
        top = 28 + row * pitch
        return picture.getpixel((left - 1, top - 1)), picture.getpixel((left + 32, top + 32))[0]

    assert [at(24, row) for row in range(3)] == [
        (colour(RIGHT), 0),
        (colour(NEUTRAL), 10),
        (colour(WRONG), 20),
    ]
    assert [at(voters + i * cell, 0) for i in range(2)] == [(colour(RIGHT), 50), (colour(WRONG), 200)]
    assert [at(positives + i * cell, 0) for i in range(3)] == [(colour(RIGHT), n) for n in (50, 60, 50)]
    assert at(positives, 2) == (colour(WRONG), 60)
    white = (255, 255, 255)
    assert at(voters, 1) == at(positives, 1) == at(voters + cell, 2) == (white, 255)
    assert np.asarray(picture.crop((24, 28 + 67, 24 + 64, 28 + 80))).min() < 100, "the vote in words"


def test_at_most_twelve_rows_and_always_the_same_images(npz, monkeypatch):
    rows = []
    monkeypatch.setattr(sheet, "drawn", lambda made, tiles: rows.append((made, tiles)))
    run, config, dataset = subject(npz)
    for _ in range(2):
        positives_sheet(run, config, dataset)
        run.step(run.feed(run.state.step))
    (one, tiles), (other, _) = rows
    assert [row.image for row in one] == [row.image for row in other]
    assert len(one) == 12
    assert (dataset.labels_M[[row.image for row in one]] == -1).all()
    shown = {image for row in one for image in (row.image, *row.positives)}
    shown |= {image for row in one for image, _, _ in row.voters}
    assert set(tiles) == shown - {NO_IMAGE}
    for row in one:
        votes = [int(words.rsplit("(")[-1][:-1]) for _, words, _ in row.voters]
        assert sum(votes) == 4
        assert len({image for image, _, _ in row.voters if image >= 0}) == sum(
            image >= 0 for image, _, _ in row.voters
        )
        winner = row.words.split(", ")[0]
        assert all(agrees == words.startswith(f"{winner} (") for _, words, agrees in row.voters)


@pytest.mark.parametrize("feed", ["resident", "streaming"])
def test_a_picture_changes_nothing(class_folders, feed):
    data = DataConfig(labels_per_class=5, workers=0, feed=feed)
    run, config, dataset = subject(class_folders, data=data, batch_size=8)
    before, rng = run.state.snapshot(), torch.get_rng_state()
    picture = positives_sheet(run, config, dataset)
    assert picture.height == 28 + 12 * 88 + 12
    assert same(before, run.state.state_dict())
    assert torch.equal(rng, torch.get_rng_state())
    assert run.state.online.training


def test_with_all_labels_given_it_shows_those(class_folders):
    data = DataConfig(label_fraction=1.0, workers=0)
    assert positives_sheet(*subject(class_folders, data=data, batch_size=8)).height > 1000
