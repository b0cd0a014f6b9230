import io

import numpy as np
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from semppl.train.curves import Curves, write_curves


def test_numbers_are_curves_and_votes_are_a_histogram(tmp_path):
    with SummaryWriter(str(tmp_path)) as writer:
        for step, loss in ((10, 2.0), (20, 1.5)):
            write_curves(writer, {"step": step, "epoch": 1.0, "loss/total": loss, "pseudo/votes": [0, 3, 5]})
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss/total")] == [(10, 2.0), (20, 1.5)]
    histogram = events.Histograms("pseudo/votes")[0].histogram_value
    assert list(histogram.bucket_limit) == [0.5, 1.5, 2.5]
    assert list(histogram.bucket) == [0, 3, 5]
    assert (histogram.min, histogram.max) == (0, 2)
    assert (histogram.num, histogram.sum, histogram.sum_squares) == (8, 13, 23)
    assert set(events.Tags()["scalars"]) == {"loss/total"}


def test_precision_and_recall_are_curves_by_threshold(tmp_path):
    counts = {"pseudo/right_by_votes": [0, 1, 3, 0], "pseudo/known_by_votes": [0, 4, 4, 0]}
    with SummaryWriter(str(tmp_path)) as writer:
        write_curves(writer, {"step": 7, "epoch": 1.0, **counts})
    events = EventAccumulator(str(tmp_path)).Reload()
    found = {tag: events.Scalars(tag)[0].value for tag in events.Tags()["scalars"]}
    assert found == {
        "precision/1 of 3 ballots or more": 0.5,
        "precision/2 of 3 ballots or more": 0.75,
        "recall/1 of 3 ballots or more": 0.5,
        "recall/2 of 3 ballots or more": 0.375,
        "recall/3 of 3 ballots or more": 0.0,
    }, "no precision where there is no label"


def test_a_picture_is_shown_pixel_by_pixel(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 9, 3), dtype=np.uint8)
    with Curves(tmp_path, 0, print) as curves:
        curves.show("semantic positives", Image.fromarray(pixels), 7)
    (event,) = EventAccumulator(str(tmp_path)).Reload().Images("semantic positives")
    assert (event.step, event.width, event.height) == (7, 9, 5)
    with Image.open(io.BytesIO(event.encoded_image_string)) as picture:
        assert np.array_equal(np.asarray(picture), pixels)


def full(*arguments, **options):
    raise OSError(28, "No space left on device")


def test_a_full_disk_ends_curves_and_pictures_with_one_line(tmp_path, monkeypatch):
    said = []
    with Curves(tmp_path, 0, said.append) as curves:
        monkeypatch.setattr(SummaryWriter, "add_image", full)
        for step in (1, 2):
            curves.show("sheet", Image.new("RGB", (2, 2)), step)
            curves.write({"step": step, "loss/total": 1.0})
    assert said == ["the curves for TensorBoard end here (No space left on device); metrics.jsonl goes on"]
