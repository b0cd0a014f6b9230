import pytest
import torch
from torch import nn

from semppl.evaluate.bookmark import Bookmark, Place, put_back_, state_of, steps_left


def test_without_a_bookmark_all_steps_are_left():
    assert list(steps_left(3, {}, None)) == [0, 1, 2]


def test_the_steps_after_a_place_are_left_and_each_is_told_when_it_is_done():
    told, part = [], torch.zeros(2)
    bookmark = Bookmark(
        lambda: Place(2, {"x": torch.tensor([5.0, 6.0])}), lambda step, state: told.append((step, state()))
    )
    for step in steps_left(4, {"x": part}, bookmark):
        assert [done for done, _ in told] == list(range(3, step + 1)), "a step is told once it is over"
        part += 1
    assert [(step, state["x"].tolist()) for step, state in told] == [(3, [6.0, 7.0]), (4, [7.0, 8.0])]


@pytest.mark.parametrize("place", [None, Place(3, {"x": torch.ones(1)})])
def test_of_a_training_that_is_over_nothing_is_left_but_its_end(place):
    part = torch.zeros(1)
    bookmark = Bookmark(lambda: place, lambda *_: pytest.fail("no step was done"))
    assert list(steps_left(3 if place else 0, {"x": part}, bookmark)) == []
    assert part.item() == (1.0 if place else 0.0)


def test_what_counts_along_is_kept_and_put_back_too():
    kept, count = [], torch.zeros(1)
    bookmark = Bookmark(lambda: None, lambda step, state: kept.append(state()), {"count": count})
    for _ in steps_left(2, {"x": torch.zeros(1)}, bookmark):
        count += 1
    assert [(sorted(state), state["count"].item()) for state in kept] == [
        (["count", "x"], 1.0),
        (["count", "x"], 2.0),
    ]
    other = torch.zeros(1)
    again = Bookmark(lambda: Place(1, kept[0]), lambda *_: None, {"count": other})
    assert list(steps_left(2, {"x": torch.zeros(1)}, again)) == [1]
    assert other.item() == 1.0


def trained(steps):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, 2)).square().sum().backward()
        optimizer.step()
    return model, optimizer


def test_a_state_is_a_copy_of_weights_statistics_and_momentum_but_not_of_rates():
    model, optimizer = trained(2)
    state = state_of({"model": model, "optimizer": optimizer})
    assert set(state["model"]) == set(model.state_dict())
    assert [set(each) for each in state["optimizer"].values()] == [{"momentum_buffer"}] * 4
    before = state["model"]["0.weight"].clone()
    with torch.no_grad():
        model[0].weight.add_(1)
    assert torch.equal(state["model"]["0.weight"], before)


@pytest.mark.parametrize("steps", [0, 2])
def test_parts_are_put_back_into_the_memory_that_they_have(steps):
    model, optimizer = trained(steps)
    state = state_of({"model": model, "optimizer": optimizer, "mean": torch.tensor([7.0])})
    others, other, mean = *trained(5), torch.zeros(1)
    other.param_groups[0]["lr"] = 0.25
    parts = {"model": others, "optimizer": other, "mean": mean}
    memory = [each.data_ptr() for each in (*others.state_dict().values(), mean)]
    put_back_(parts, state)
    assert [each.data_ptr() for each in (*others.state_dict().values(), mean)] == memory
    assert other.param_groups[0]["lr"] == 0.25
    torch.testing.assert_close(state_of(parts), state, rtol=0, atol=0)


def test_a_state_that_was_put_back_is_not_trained_on():
    model, optimizer = trained(2)
    parts = {"model": model, "optimizer": optimizer}
    state = state_of(parts)
    put_back_(parts, state)
    before = {key: value["momentum_buffer"].clone() for key, value in state["optimizer"].items()}
    model(torch.randn(4, 2)).square().sum().backward()
    optimizer.step()
    for key, value in state["optimizer"].items():
        assert torch.equal(value["momentum_buffer"], before[key])
