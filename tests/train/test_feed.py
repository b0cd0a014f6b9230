import pytest
import torch
from tests.conftest import tiny_config

from semppl.config import DataConfig
from semppl.core.errors import UserError
from semppl.data.request import Request
from semppl.data.resident import ResidentFeed
from semppl.data.source import load_dataset
from semppl.data.streaming import StreamingFeed
from semppl.resolve import resolved
from semppl.train.build import build_training

CPU = torch.device("cpu")


def training(root, feed, **data):
    dataset = load_dataset(Request(source=str(root), labels_per_class=2, feed=feed))
    config = tiny_config(root, data=DataConfig(workers=0, **data), batch_size=6)
    return build_training(resolved(config, image_size=8, num_images=36, num_classes=3), dataset, CPU)


def test_pixels_in_memory_are_resident_and_files_are_streamed(class_folders):
    resident, streaming = (training(class_folders, feed) for feed in ("resident", "streaming"))
    assert isinstance(resident.feed, ResidentFeed)
    assert isinstance(streaming.feed, StreamingFeed)
    for step in range(6):
        one, other = resident.feed(step), streaming.feed(step)
        assert torch.equal(one.index_B, other.index_B), "both show the same images in the same order"
        assert torch.equal(one.labels_B, other.labels_B)
        assert [crop.shape for crop in one.crops] == [crop.shape for crop in other.crops]
    seen = torch.cat([streaming.feed(step).index_B for step in range(6)])
    assert torch.equal(seen.sort().values, torch.arange(36)), "an epoch shows every image once"


def test_a_step_runs_on_streamed_files(class_folders):
    run = training(class_folders, "streaming", labelled_fraction=0.5)
    batch = run.feed(0)
    assert int((batch.labels_B >= 0).sum()) == 3
    assert torch.isfinite(run.step(batch).terms.total)


def test_a_share_needs_both_kinds_of_images(class_folders):
    dataset = load_dataset(Request(source=str(class_folders), label_fraction=1.0))
    config = tiny_config(class_folders, data=DataConfig(labelled_fraction=0.5), batch_size=6)
    with pytest.raises(UserError, match="one kind is missing"):
        build_training(resolved(config, image_size=8, num_images=36, num_classes=3), dataset, CPU)
