import pytest

from semppl.core.errors import UserError
from semppl.data.rows import Row, numbered_lines, read_rows


def table(folder, content, name="labels.csv"):
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def refused(folder, content):
    with pytest.raises(UserError) as caught:
        list(read_rows(table(folder, content)))
    return str(caught.value)


def test_rows_come_with_their_lines_and_paths_as_written(tmp_path):
    file = table(tmp_path, 'note;Label;path\n\nx; cat ; a\\b.png\n"two\nlines";;c.png\n;dog;d.png')
    assert list(read_rows(file)) == [
        Row(3, " a\\b.png", "cat"),
        Row(4, "c.png", ""),
        Row(6, "d.png", "dog"),
    ]


@pytest.mark.parametrize("begins", [b"PK\x03\x04", b"\x89PNG\r\n", b"%PDF-1.7", b"SQLite format 3\0"])
def test_what_is_no_text_is_called_so(tmp_path, begins):
    line = refused(tmp_path, begins + bytes(200_000))
    assert line.endswith(": this is no table of text (a spreadsheet? save it as CSV)")


def test_a_first_line_of_any_length_is_shown_in_part(tmp_path):
    line = refused(tmp_path, "x" * 200_000)  # longer than a field of a table may be
    assert f"the first line is '{'x' * 80}…', but it must name the columns: path,label" in line


def test_a_list_of_names(tmp_path):
    file = table(tmp_path, "\ufeff# a list\n\n a.jpg \r\nb #2.jpg\n  # more\nc.jpg", name="list.txt")
    assert [line for _, line in numbered_lines(file)] == ["a.jpg", "b #2.jpg", "c.jpg"]
    assert numbered_lines(file) == [(3, "a.jpg"), (4, "b #2.jpg"), (6, "c.jpg")]
    assert numbered_lines(table(tmp_path, "", name="empty.txt")) == []


def test_a_list_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match=r"none\.txt: no such file"):
        numbered_lines(tmp_path / "none.txt")
    with pytest.raises(UserError, match=r"list\.txt: row 2 is not UTF-8"):
        numbered_lines(table(tmp_path, b"a\n\xff\n", name="list.txt"))
