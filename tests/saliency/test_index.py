import os

import pytest

from semppl.saliency.index import Index, Row

A, B, C = ("a" * 32, "b" * 32, "c" * 32)


@pytest.fixture
def make(tmp_path):
    (tmp_path / "masks").mkdir()

    def index():
        return Index(tmp_path / "index.csv", tmp_path / "masks")

    return index


def put(tmp_path, *names):
    for name in names:
        (tmp_path / "masks" / name).write_bytes(b"")


def test_rows_come_back_even_with_odd_names(tmp_path, make):
    names = ["a,b.png", 'q"uote.png', "two\nlines.png", os.fsdecode(b"caf\xe9.png"), "ü.png"]
    put(tmp_path, *names)
    rows = [Row(f"{i:032d}", name, 3 + i, 4, i / 8) for i, name in enumerate(names)]
    with make().open() as index:
        for row in rows:
            index.add_(row)
    assert list(make().rows.values()) == rows


def test_a_mask_that_is_gone_does_not_count(tmp_path, make):
    put(tmp_path, "1.png")
    with make().open() as index:
        index.add_(Row(A, "1.png", 1, 1, 0))
        index.add_(Row(B, "2.png", 1, 1, 0))
    found = make()
    assert list(found.rows) == ["1.png"]
    assert found.known().tolist() == [A.encode()]
    assert (found.holder(A), found.holder(B)) == ("1.png", None)


def test_the_last_row_of_a_name_counts_and_its_old_content_is_unknown(tmp_path, make):
    put(tmp_path, "1.png", "2.png")
    with make().open() as index:
        index.add_(Row(A, "1.png", 1, 1, 0))
        index.add_(Row(C, "2.png", 1, 1, 0))
        index.add_(Row(B, "1.png", 1, 1, 0.5))
        assert (index.holder(A), index.holder(B)) == (None, "1.png")
    found = make()
    assert found.rows["1.png"] == Row(B, "1.png", 1, 1, 0.5)
    assert found.known().tolist() == [B.encode(), C.encode()]


def test_two_images_that_change_names_keep_both_contents(tmp_path, make):
    put(tmp_path, "1.png", "2.png")
    with make().open() as index:
        for content, name in ((A, "1.png"), (B, "2.png"), (B, "1.png"), (A, "2.png")):
            index.add_(Row(content, name, 1, 1, 0))
        assert (index.holder(A), index.holder(B)) == ("2.png", "1.png")


def test_half_a_line_is_passed_over_and_the_next_one_is_whole(tmp_path, make):
    put(tmp_path, "1.png", "2.png")
    with make().open() as index:
        index.add_(Row(A, "1.png", 1, 1, 0))
        index.add_(Row(B, "2.png", 1, 1, 0))
    file = tmp_path / "index.csv"
    file.write_bytes(file.read_bytes()[:-14])
    with make().open() as index:
        assert list(index.rows) == ["1.png"]
        index.add_(Row(C, "2.png", 1, 1, 0))
    assert [row.content for row in make().rows.values()] == [A, C]


def test_rows_are_on_the_disk_at_once_and_contents_in_order(tmp_path, make):
    put(tmp_path, "1.png", "2.png", "3.png")
    with make().open() as index:
        for number, content in enumerate((C, A, B), 1):
            index.add_(Row(content, f"{number}.png", 1, 1, 0))
            assert len(make().rows) == number
        assert index.known().tolist() == [A.encode(), B.encode(), C.encode()]


def test_zeros_that_a_crash_left_hide_no_row(tmp_path, make):
    put(tmp_path, "1.png", "2.png")
    lines = f"{A},1.png,1,1,0.5\n", "\0" * 50 + f"{B},2.png,1,1,0.5\n"
    (tmp_path / "index.csv").write_text("".join(lines))
    assert list(make().rows) == ["1.png", "2.png"]


def test_no_table_is_an_empty_one(make):
    assert make().rows == {}
    assert len(make().known()) == 0


def test_a_closed_index_takes_no_rows(make):
    with pytest.raises(ValueError, match="open the index"):
        make().add_(Row(A, "1.png", 1, 1, 0))
