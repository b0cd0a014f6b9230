from pathlib import Path

import pytest

from semppl.ablate.files import MADE_BY, TableFiles
from semppl.core.errors import UserError


@pytest.fixture
def files(tmp_path):
    return TableFiles(tmp_path, "labels")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def written(files, cell="default-seed0", shown="![curve](labels.png)"):
    files.write(f"{MADE_BY} `{cell}` {shown}", {"made_by": MADE_BY, "cells": {"0": cell}})
    files.picture.touch()


def test_ours_are_replaced_and_withdrawn(files, tmp_path):
    files.require_ours()
    written(files)
    files.require_ours()
    assert names(tmp_path) == ["labels.json", "labels.md", "labels.png"]
    files.withdraw_()
    assert names(tmp_path) == []
    files.withdraw_()


def test_rows_are_not_lost(files, tmp_path):
    files.require_no_less(["a"])
    files.write("page", {"rows": [{"row": "a"}, {"row": "b"}]})
    files.require_no_less(["c", "b", "a"])
    with pytest.raises(UserError, match=r"labels\.md has rows that this table would not have \(b\)"):
        files.require_no_less(["a", "c"])
    for damaged in ("", "[]", '{"rows": 3}', '{"rows": [3]}'):
        files.data.write_text(damaged)
        files.require_no_less([])


@pytest.mark.parametrize("kind", ["md", "json", "png"])
def test_somebodys_own_are_refused_and_never_withdrawn(files, tmp_path, kind):
    (tmp_path / f"labels.{kind}").write_bytes(b"\xffmine")
    with pytest.raises(UserError, match=rf"labels\.{kind} is there already and not ours"):
        files.require_ours()
    files.withdraw_()
    assert names(tmp_path) == [f"labels.{kind}"]


def test_a_picture_that_our_page_does_not_show_is_somebodys(files, tmp_path):
    written(files, shown="")
    files.withdraw_()
    assert names(tmp_path) == ["labels.png"]


def test_whether_a_cell_is_shown(files):
    assert not files.shows("default-seed0")
    written(files, "default-seed0")
    assert files.shows("default-seed0")
    assert not files.shows("default-seed")
    files.page.unlink()
    assert files.shows("default-seed0")


def test_a_file_that_cannot_be_removed_is_named(files, monkeypatch):
    def refuse(path, **_):
        raise PermissionError(13, "Permission denied")

    written(files)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(UserError, match=r"cannot remove .*labels\.png \(Permission denied\)"):
        files.withdraw_()
