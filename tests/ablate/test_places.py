from pathlib import Path

import pytest
from tests.ablate.stubs import finish, make_cell

from semppl.ablate.copies import Copies
from semppl.ablate.files import MADE_BY, TableFiles
from semppl.ablate.places import Places
from semppl.config import to_yaml
from semppl.core.errors import UserError

NO_COPIES = Copies(None, Path("out"))


@pytest.fixture
def files(tmp_path):
    return TableFiles(tmp_path, "parts")


@pytest.fixture
def cells(tmp_path):
    """Two finished runs."""
    found = [make_cell(tmp_path, name) for name in ("default-seed0", "positives-0-seed0")]
    for cell in found:
        cell.run.prepare_(to_yaml(cell.config), overwrite=False)
        finish(cell)
    return found


def show(files, *cells):
    files.write(" ".join([MADE_BY, *(f"`{cell.name}`" for cell in cells)]), {"made_by": MADE_BY})


def test_what_another_run_has_done_is_not_the_cells(files, cells):
    places = Places([files], cells[:1], NO_COPIES)
    assert (places.score(cells[0]), places.steps(cells[0])) == (None, 0)
    assert places.score(cells[1]) is not None
    assert places.steps(cells[1]) == cells[1].steps


def test_another_run_stays_until_the_turn_of_its_place_comes_and_then_the_page_goes_first(files, cells):
    show(files, *cells)
    places = Places([files], cells, NO_COPIES)
    assert cells[0].run.metrics.exists()
    places.begin_(cells[0])
    assert not files.page.exists()
    assert not files.data.exists()
    assert (cells[0].run.exists, cells[0].run.metrics.exists()) == (True, False)
    assert cells[1].run.metrics.exists()
    finish(cells[0], linear=61.0)
    assert places.score(cells[0]).linear == 61.0
    places.begin_(cells[0])
    assert places.score(cells[0]).linear == 61.0, "it is the cell's own by now"


def test_a_cell_of_its_own_is_left_to_go_on(files, cells):
    show(files, *cells)
    places = Places([files], [], NO_COPIES)
    places.begin_(cells[0])
    assert places.score(cells[0]) is not None
    assert files.page.exists()


def test_a_page_goes_with_its_cells_and_stays_with_them(files, cells):
    show(files, cells[0])
    Places([files], cells[:1], NO_COPIES).withdraw_pages_of_(cells)
    assert files.page.exists(), "the run that it shows is still there"
    Places([files], [], NO_COPIES).withdraw_pages_of_(cells[1:])
    assert files.page.exists(), "it shows other cells"
    Places([files], [], NO_COPIES).withdraw_pages_of_(cells)
    assert not files.page.exists()


def test_a_place_that_cannot_be_had_stays_foreign(files, cells):
    (cells[0].path / "config.yaml").unlink()
    places = Places([files], cells, NO_COPIES)
    with pytest.raises(UserError, match="holds no run of ours"):
        places.begin_(cells[0])
    assert places.score(cells[0]) is None
