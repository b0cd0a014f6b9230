import pytest

from semppl.core.share import WHOLE, Rows, Share


@pytest.mark.parametrize("total", [0, 1, 7, 8, 4096])
@pytest.mark.parametrize("world", [1, 2, 3, 4, 64])
def test_shares_cover_every_row_once_in_order_and_differ_by_at_most_one(total: int, world: int) -> None:
    parts = [Share(rank, world).rows(total) for rank in range(world)]
    assert [row for part in parts for row in range(part.start, part.stop)] == list(range(total))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert {part.total for part in parts} == {total}


def test_one_process_has_everything() -> None:
    assert WHOLE.rows(5) == Rows(0, 5, 5)
    assert list("abcde"[Share(1, 2).rows(5).slice]) == ["c", "d", "e"]


@pytest.mark.parametrize(("rank", "world"), [(-1, 2), (2, 2), (0, 0)])
def test_a_rank_outside_its_world_is_refused(rank: int, world: int) -> None:
    with pytest.raises(ValueError, match=f"rank {rank} of {world}"):
        Share(rank, world)
