import os
from pathlib import Path

import pytest

from semppl.core.errors import UserError
from semppl.report.settings import ReportFlags
from semppl.report.table.settings import MADE_BY, our_table, table_destination


def test_only_a_page_of_ours_is_replaced(tmp_path):
    out = tmp_path / "x.md"
    assert table_destination(ReportFlags(table=out)) == out
    out.write_text(f"<!-- {MADE_BY}: the same command writes it again -->\n")
    assert table_destination(ReportFlags(table=out)) == out
    out.write_text(f"mine, {MADE_BY}:")
    assert not our_table(out)
    with pytest.raises(UserError, match=r"x.md is no page of ours: replace it with --overwrite"):
        table_destination(ReportFlags(table=out))
    assert table_destination(ReportFlags(table=out, overwrite=True)) == out


def test_bad_places(tmp_path):
    with pytest.raises(UserError, match="is a folder"):
        table_destination(ReportFlags(table=tmp_path, overwrite=True))
    with pytest.raises(UserError, match="none is no folder"):
        table_destination(ReportFlags(table=tmp_path / "none" / "x.md"))
    with pytest.raises(UserError, match="--out is for the HTML page"):
        table_destination(ReportFlags(table=Path("x.md"), out=Path("x.html")))
    with pytest.raises(ValueError, match="no --table"):
        table_destination(ReportFlags())
    assert not our_table(tmp_path / "none")


def test_a_device_is_not_looked_into():
    null = Path(os.devnull)
    assert table_destination(ReportFlags(table=null)) == null, (
        "it is no page of ours, and nothing is lost there"
    )
