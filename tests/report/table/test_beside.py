import pytest

from semppl.core.errors import UserError
from semppl.report.table.beside import Published, read_published

HEAD = "name,labels,epochs,top1,source\n"


def test_rows_as_they_are_written(tmp_path):
    file = tmp_path / "p.csv"
    text = f'\ufeff{HEAD}FixMatch,4000,"1,024",95.74 ± 0.05,"paper, table 2"\n\nPAWS,40,600,,x\n'
    file.write_text(text.replace("PAWS,40,600,,x", "PAWS , 40 ,,90.1,x"), encoding="utf-8")
    assert read_published(file) == [
        Published("FixMatch", 4000, "1,024", "95.74 ± 0.05", "paper, table 2"),
        Published("PAWS", 40, "", "90.1", "x"),
    ]


def test_columns_in_any_order(tmp_path):
    file = tmp_path / "p.csv"
    file.write_text("source,more,top1,epochs,labels,name\ns,?,90,1,40,a\n")
    assert read_published(file) == [Published("a", 40, "1", "90", "s")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no column name"),
        ("name,labels,epochs,top1\n", "has no column source: --beside needs name,labels,epochs,top1,source"),
        (f"{HEAD}a,40,1,90,b,c\n", "line 2: 6 values for 5 columns"),
        (f"{HEAD}a\n", "line 2: 1 value for 5 columns"),
        (f"{HEAD}\na,many,1,90,b\n", "line 3: labels is 'many': write their number"),
        (f"{HEAD}a,4000.0,1,90,b\n", "labels is '4000.0'"),
        (f"{HEAD},40,1,90,b\n", "no name"),
        (f"{HEAD}a,40,1,,b\n", "no top1"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, text, words):
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(UserError, match=words) as error:
        read_published(tmp_path / "p.csv")
    assert "p.csv" in str(error.value)


def test_no_file_and_no_text(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_published(tmp_path / "none.csv")
    (tmp_path / "b.csv").write_bytes(b"name\xff")
    with pytest.raises(UserError, match="no CSV file in UTF-8"):
        read_published(tmp_path / "b.csv")
