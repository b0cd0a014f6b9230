import torch

from semppl.core.rng import generator, stream, uniforms
from semppl.core.share import Share


def test_a_stream_is_a_function_of_seed_name_and_step():
    assert stream(1, "views", 2) == stream(1, "views", 2)
    others = {stream(1, "views", 2), stream(2, "views", 2), stream(1, "order", 2), stream(1, "views", 3)}
    assert len(others) == 4
    assert all(0 <= value < 2**63 for value in others)


def test_names_and_numbers_do_not_run_into_each_other():
    assert stream(1, "a/1", 2) != stream(1, "a", 12)


def test_a_generator_repeats_its_draws():
    first = torch.rand(5, generator=generator(3, "x", 7))
    assert torch.equal(first, torch.rand(5, generator=generator(3, "x", 7)))
    assert not torch.equal(first, torch.rand(5, generator=generator(3, "x", 8)))


def test_shares_draw_what_the_whole_draws():
    whole = uniforms(3, 7, generator(0, "x"))
    parts = [uniforms(3, Share(rank, 4).rows(7), generator(0, "x")) for rank in range(4)]
    assert whole.shape == (3, 7)
    assert torch.equal(torch.cat(parts, dim=1), whole)
