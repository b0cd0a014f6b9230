import pytest
import torch

from semppl.data.images import ImageFiles


def test_given_labels_are_those_of_training_and_those_held_out(desk):
    assert len(desk.dataset.labelled_L) == 12
    assert len(desk.dataset.validation_V) == 3
    assert int((desk.given_M >= 0).sum()) == 15


@pytest.mark.parametrize("feed", ["resident", "streaming"])
def test_features_and_crops_from_memory_and_from_files(make_desk, online, feed):
    desk = make_desk(feed=feed)
    assert isinstance(desk.dataset.images, ImageFiles) == (feed == "streaming")
    index = desk.dataset.labelled_L
    features = desk.features(online.encoder, desk.dataset.images[index])
    assert features.shape == (12, online.encoder.num_features)
    crops = desk.crops(index)
    views = crops(torch.tensor([0, 3, 3]), torch.Generator().manual_seed(0))
    assert views.shape == (3, 3, 8, 8)
    assert views.dtype == torch.float32
    again = crops(torch.tensor([0, 3, 3]), torch.Generator().manual_seed(0))
    assert torch.equal(views, again)
    assert not torch.equal(views[1], views[2]), "each view is drawn by itself"


def test_features_of_files_equal_those_of_memory(make_desk, online):
    resident, streaming = make_desk(feed="resident"), make_desk(feed="streaming")
    assert list(resident.dataset.names) == list(streaming.dataset.names)
    # those of files come from thumbnails of 64 px
    vars(streaming)["statistics"] = resident.statistics
    mine, theirs = (desk.features(online.encoder, desk.dataset.images) for desk in (resident, streaming))
    assert torch.allclose(mine, theirs, atol=1e-5)
