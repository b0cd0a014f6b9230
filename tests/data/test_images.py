import pickle

import pytest
import torch
from tests.conftest import save_stripes

from semppl.data.images import ImageFiles, batches, gather, read_or_grey
from semppl.data.paths import Paths


@pytest.fixture
def files(tmp_path):
    save_stripes(tmp_path, range(5))
    return ImageFiles(tmp_path, Paths(f"{i:03d}.png" for i in range(5)))


def corner(image_3HW):
    return image_3HW[:, :2, :2]


def test_parts_come_in_order_and_prepared(files):
    parts = list(batches(files, corner, batch_size=2))
    assert [len(part) for part in parts] == [2, 2, 1]
    assert torch.equal(torch.cat(parts), gather(files, corner))
    index = torch.tensor([4, 0])
    assert torch.equal(gather(files[index], corner), gather(files, corner)[index])


def test_of_no_files_there_is_an_empty_tensor_of_the_shape_that_is_made(files):
    none = files[torch.tensor([], dtype=torch.long)]
    for shape in ((3, 2, 2), (3, 1, 5)):
        made = gather(none, lambda image, shape=shape: image[:, :1, :1].expand(shape))
        assert (made.shape, made.dtype) == ((0, *shape), torch.uint8)


def test_a_tensor_is_prepared_as_files_are():
    pixels = torch.arange(5 * 27, dtype=torch.uint8).view(5, 3, 3, 3)
    assert [len(part) for part in batches(pixels, first, batch_size=3)] == [3, 2]
    assert torch.equal(gather(pixels, first), pixels[..., :1, :1])


def first(images):
    return images[..., :1, :1]


def test_workers_change_nothing(files, monkeypatch):
    monkeypatch.setattr("semppl.data.images._FEW", 0)
    alone = torch.cat(list(batches(files, corner, batch_size=2, workers=0)))
    assert torch.equal(torch.cat(list(batches(files, corner, batch_size=2, workers=2))), alone)


def test_files_travel_to_workers(files):
    assert pickle.loads(pickle.dumps(files)).path(3) == files.path(3)


def test_a_file_that_goes_bad_is_grey_and_named(files):
    (files.root / "002.png").write_bytes(b"")
    image, problem = read_or_grey(files.path(2))
    assert image.flatten().tolist() == [128, 128, 128]
    assert "002.png: not a readable image" in problem
    assert read_or_grey(files.path(1))[1] == ""
    problems: set[str] = set()
    parts = gather(files, first, problems=problems)
    assert parts[2].flatten().tolist() == [128, 128, 128]
    assert problems == {problem}
