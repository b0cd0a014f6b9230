import pytest
import torch
from tests.train.world import in_ranks

from semppl.protocols.sharing import shared_out
from semppl.train.ranks import ALONE


def answers():
    """Of numbered images: the number and its double; and who was asked."""
    asked, problems, heard = [], set(), []

    def answer(images, advance):
        asked.extend(images.tolist())
        problems.add(f"image {int(images[0])}")
        advance(len(images))
        return torch.stack([images, 2 * images], dim=1)

    return asked, problems, heard, answer


def asked_by(ranks, device, count):
    asked, problems, heard, answer = answers()
    rows = shared_out(ranks, torch.arange(count), answer, problems, heard.append)
    return rows.tolist(), asked, sorted(problems), heard


def test_one_rank_answers_for_all():
    rows, asked, problems, heard = asked_by(ALONE, None, 5)
    assert rows == [[i, 2 * i] for i in range(5)]
    assert (asked, problems, heard) == ([0, 1, 2, 3, 4], ["image 0"], [5])


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_rank_has_all_rows_and_all_problems(count):
    first, second = in_ranks(2, asked_by, count)
    expected = [[i, 2 * i] for i in range(count)]
    assert first[0] == second[0] == expected
    assert first[2] == second[2]
    if count == 1:  # too few to be shared
        assert first[1] == second[1] == [0]
    else:
        assert first[1] + second[1] == list(range(count))
        assert first[2] == sorted({"image 0", f"image {second[1][0]}"})
        assert first[3] == [min(2 * len(first[1]), count)]
