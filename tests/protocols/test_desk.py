import io
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from semppl.data.images import ImageFiles
from semppl.protocols import desk as desk_module
from semppl.protocols.desk import Desk
from semppl.protocols.store import FeatureStore
from semppl.views.tensorflow import tensorflow_crop
from semppl.views.whole import whole_crop, whole_view


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


def test_the_store_tells_apart_how_images_were_prepared(make_desk, online, tmp_path):
    desk = replace(make_desk(), store=FeatureStore(tmp_path / "features"))
    images = desk.dataset.images[:4]
    plain = desk.features(online.encoder, images)
    dark = desk.features(online.encoder, images, prepare=lambda x: x // 2, prepared="dark")
    assert not torch.equal(plain, dark)
    assert torch.equal(desk.features(online.encoder, images), plain)
    assert len(list((tmp_path / "features").iterdir())) == 2


def test_files_that_cannot_be_read_are_named_once_and_their_features_not_kept(
    make_desk, online, tmp_path, class_folders
):
    console = Console(file=io.StringIO(), width=200)
    store = FeatureStore(tmp_path / "features")
    desk = replace(make_desk(feed="streaming"), store=store, console=console)
    (class_folders / "cat" / "003.png").write_text("no longer an image")
    grey = desk.features(online.encoder, desk.dataset.images)
    assert console.file.getvalue().count("003.png") == 1
    assert "a grey image stands for it" in console.file.getvalue()
    assert len(desk.unreadable) == 1
    assert list((tmp_path / "features").glob("*.npy")) == []
    desk.logits(torch.nn.Sequential(online, torch.nn.Linear(8, 3)), desk.dataset.images)
    desk.pixels(torch.arange(36))
    assert console.file.getvalue().count("003.png") == 1, "each once"
    assert grey.shape == (36, online.encoder.num_features)


def test_the_papers_crops_have_8_to_100_per_cent(make_desk):
    desk = make_desk()
    assert desk.view.min_area == 0.2, "small images have a recipe of their own"
    views = replace(desk.config.views, recipe="paper")
    paper = Desk(replace(desk.config, views=views), desk.dataset, desk.device, desk.console)
    assert (paper.view.min_area, paper.view.max_area) == (0.08, 1.0)
    views = replace(views, min_area=0.5)
    own = Desk(replace(desk.config, views=views), desk.dataset, desk.device, desk.console)
    assert own.view.min_area == 0.5


def test_exact_crops_are_of_the_files_themselves(make_desk, monkeypatch):
    resident, files = make_desk(feed="resident"), make_desk(feed="streaming")
    assert not resident.streams(10, exact=True)
    assert files.streams(10, exact=True)
    assert not files.streams(10, exact=False)
    assert files.crops_in_words(10, exact=False) == "crops of 20% to 100% of middle squares and flips"
    assert files.crops_in_words(10, exact=True) == resident.crops_in_words(10, exact=False)
    monkeypatch.setattr("semppl.protocols.desk.memory_for_pixels", lambda device: 0)
    assert files.streams(10, exact=False), "they do not fit"


def test_squares_are_read_once_while_the_same_are_asked_for(make_desk, monkeypatch):
    desk, reads = make_desk(feed="streaming"), []
    real = desk_module.gather
    monkeypatch.setattr(
        desk_module, "gather", lambda files, *a, **k: reads.append(len(files)) or real(files, *a, **k)
    )
    some, others = torch.tensor([0, 3]), torch.tensor([1, 2, 3])
    first = desk.pixels(some)
    assert torch.equal(desk.pixels(some.clone()), first)
    assert desk.pixels(others).shape[0] == 3
    assert torch.equal(desk.pixels(some), first)
    assert reads == [2, 3, 2], "one set is held at a time"


def test_answers_are_to_images_cut_as_the_weights_want_them(desk):
    deepmind = replace(desk, given=replace(desk.preprocessing, crop="deepmind"))

    class Seen(torch.nn.Module):
        def forward(self, views):
            return views.flatten(1)

    images = torch.randint(256, (3, 3, 13, 13), dtype=torch.uint8)
    mean_3, std_3 = desk.statistics
    for each, crop in ((desk, whole_crop), (deepmind, tensorflow_crop)):
        expected = whole_view(torch.stack([crop(8, image) for image in images]), mean_3, std_3).flatten(1)
        assert torch.allclose(each.logits(Seen(), images), expected, atol=1e-5)
