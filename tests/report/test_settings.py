import os
from pathlib import Path

import pytest

from semppl.core.errors import UserError
from semppl.report.settings import ReportFlags, destination, ours

MARK = '<!doctype html>\n<meta name="generator" content="semppl report">'


def test_one_run_keeps_its_page_and_several_leave_it_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    assert destination([Path("a")], ReportFlags()) == Path("a/report.html")
    assert destination([Path("a"), Path("b")], ReportFlags()) == Path("report.html")
    assert destination([Path("a")], ReportFlags(out=Path("x.html"))) == Path("x.html")


def test_only_a_page_of_ours_is_replaced(tmp_path):
    out = tmp_path / "x.html"
    out.write_text(MARK)
    assert ours(out)
    assert destination([tmp_path], ReportFlags(out=out)) == out
    out.write_text("<p>mine</p>")
    with pytest.raises(UserError, match=r"x.html is no page of ours: replace it with --overwrite"):
        destination([tmp_path], ReportFlags(out=out))
    assert destination([tmp_path], ReportFlags(out=out, overwrite=True)) == out


def test_a_folder_is_no_place_for_a_page(tmp_path):
    with pytest.raises(UserError, match="is a folder"):
        destination([tmp_path], ReportFlags(out=tmp_path, overwrite=True))
    with pytest.raises(UserError, match="none is no folder"):
        destination([tmp_path], ReportFlags(out=tmp_path / "none" / "x.html"))


def test_a_device_is_not_looked_into():
    null = Path(os.devnull)
    assert destination([Path()], ReportFlags(out=null)) == null, (
        "it is no page of ours, and nothing is lost there"
    )
