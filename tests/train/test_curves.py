from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from semppl.train.curves import write_curves


def test_numbers_are_curves_and_votes_are_a_histogram(tmp_path):
    with SummaryWriter(str(tmp_path)) as writer:
        for step, loss in ((10, 2.0), (20, 1.5)):
            write_curves(writer, {"step": step, "epoch": 1.0, "loss/total": loss, "pseudo/votes": [0, 3, 5]})
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss/total")] == [(10, 2.0), (20, 1.5)]
    histogram = events.Histograms("pseudo/votes")[0].histogram_value
    assert list(histogram.bucket_limit) == [0.5, 1.5, 2.5]
    assert list(histogram.bucket) == [0, 3, 5]
    assert (histogram.num, histogram.sum, histogram.sum_squares) == (8, 13, 23)
    assert set(events.Tags()["scalars"]) == {"loss/total"}
