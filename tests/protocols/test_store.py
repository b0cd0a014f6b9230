import os

import numpy as np
import pytest
import torch
from torch import nn

from semppl.core.errors import RunError
from semppl.data.images import ImageFiles
from semppl.data.paths import Paths
from semppl.protocols import store as module
from semppl.protocols.store import FeatureStore, content_digest, weights_digest

IMAGES = torch.arange(5 * 3 * 2 * 2, dtype=torch.uint8).view(5, 3, 2, 2)


class Encoder(nn.Linear):
    num_features = 4


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return Encoder(2, 4)


@pytest.fixture
def store(tmp_path):
    return FeatureStore(tmp_path / "features")


class Maker:
    def __init__(self, keep=True):
        self.calls, self.keep = 0, keep

    def __call__(self, out_NF):
        self.calls += 1
        out_NF.copy_(torch.arange(20.0).view(5, 4))
        return self.keep


def test_features_are_made_once(store, encoder, tmp_path):
    make = Maker()
    first = store.get(encoder, IMAGES, "how", make)
    again = store.get(encoder, IMAGES, "how", make)
    assert make.calls == 1
    assert torch.equal(first, torch.arange(20.0).view(5, 4))
    assert torch.equal(again, first)
    (file,) = (tmp_path / "features").iterdir()
    assert np.array_equal(np.load(file), first.numpy())
    again += 1  # memory of one's own: the file stays
    assert torch.equal(store.get(encoder, IMAGES, "how", make), first)


def test_other_weights_images_or_manner_are_other_features(store, encoder):
    make = Maker()
    store.get(encoder, IMAGES, "how", make)
    store.get(encoder, IMAGES, "otherwise", make)
    store.get(encoder, IMAGES + 1, "how", make)
    with torch.no_grad():
        encoder.weight[0, 0] += 1e-6
    store.get(encoder, IMAGES, "how", make)
    assert make.calls == 4


def test_what_fails_leaves_nothing_and_a_damaged_file_is_made_again(store, encoder, tmp_path):
    def fail(out_NF):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.get(encoder, IMAGES, "how", fail)
    assert list((tmp_path / "features").iterdir()) == []
    make = Maker()
    store.get(encoder, IMAGES, "how", make)
    (file,) = (tmp_path / "features").iterdir()
    file.write_bytes(file.read_bytes()[:100])
    assert torch.equal(store.get(encoder, IMAGES, "how", make), torch.arange(20.0).view(5, 4))
    assert make.calls == 2


def test_what_is_not_worth_keeping_is_given_and_forgotten(store, encoder, tmp_path):
    make = Maker(keep=False)
    (tmp_path / "features").mkdir()
    (tmp_path / "features" / ".x.npy.1.tmp").touch()  # of a run that was killed
    for _ in range(2):
        assert torch.equal(store.get(encoder, IMAGES, "how", make), torch.arange(20.0).view(5, 4))
        assert list((tmp_path / "features").iterdir()) == []
    assert make.calls == 2


def test_a_place_that_cannot_be_written_to_is_one_line(encoder, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="make room, or use --no-cache"):
        FeatureStore(tmp_path / "file").get(encoder, IMAGES, "how", Maker())


def test_files_are_told_apart_by_content_wherever_they_lie(tmp_path, store):
    def files(folder, *names):
        return ImageFiles(tmp_path / folder, Paths(names))

    for folder, a, b in (("one", "x", "y"), ("two", "x", "z")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a").write_text(a)
        (tmp_path / folder / "b").write_text(b)
    same = content_digest(files("one", "a"))
    assert content_digest(files("two", "a")) == same == store.digest(files("one", "a"))
    assert content_digest(files("two", "b")) != content_digest(files("one", "b")) != same
    assert content_digest(files("one", "a", "b")) != content_digest(files("one", "b", "a"))
    (tmp_path / "one" / "a").unlink()
    assert content_digest(files("one", "a")) != same


def test_files_are_read_for_their_digest_once_and_again_when_they_changed(tmp_path, store, monkeypatch):
    reads, real = [], module.content_digest
    monkeypatch.setattr(module, "content_digest", lambda images: reads.append(1) or real(images))
    (tmp_path / "a").write_text("x")
    files = ImageFiles(tmp_path, Paths(["a"]))
    os.utime(tmp_path / "a", (1, 1))
    first = store.digest(files)
    assert store.digest(files) == first
    assert len(reads) == 1
    (tmp_path / "a").write_text("y")
    os.utime(tmp_path / "a", (2, 2))
    assert store.digest(files) != first
    assert len(reads) == 2


def test_the_digest_of_weights_knows_shapes_and_statistics():
    norm = nn.BatchNorm1d(2)
    before = weights_digest(norm)
    assert weights_digest(nn.BatchNorm1d(2)) == before
    norm.running_mean += 1
    assert weights_digest(norm) != before
