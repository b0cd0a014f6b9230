from types import SimpleNamespace

import torch

from semppl.core.batch import Batch
from semppl.protocols.feeding import examples_of


def test_the_first_view_with_its_labels_and_at_the_end_what_could_not_be_read():
    told, regretted = [], []

    def make(step):
        views = torch.full((2, 3, 4, 4), step, dtype=torch.uint8), torch.zeros(2, 3, 4, 4)
        return Batch(views, torch.tensor([step, 7]), torch.arange(2))

    class Feed(SimpleNamespace):
        def __call__(self, step):
            return make(step)

    feed = Feed(close=lambda: told.append("closed"), unreadable={"a.png: no image"})
    examples, close = examples_of(feed, lambda crops: crops.float() * 10, regretted.append)
    views, labels = examples(5)
    assert torch.equal(views, torch.full((2, 3, 4, 4), 50.0))
    assert labels.tolist() == [5, 7]
    hardened, _ = examples_of(feed, lambda _: None, regretted.append, harden=lambda step, crops: crops + step)
    views, labels = hardened(5)
    assert torch.equal(views, torch.full((2, 3, 4, 4), 5.0)), "the second view"
    assert labels.tolist() == [5, 7]
    assert (told, regretted) == ([], [])
    feed.unreadable.add("b.png: no image")
    close()
    assert told == ["closed"]
    assert regretted == [{"a.png: no image", "b.png: no image"}]
