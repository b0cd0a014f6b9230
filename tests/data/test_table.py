import csv
import io
import os
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semppl.core.errors import UserError
from semppl.data.table import read_labels

PATHS = ["a/x.jpg", "a/y.jpg", "b/z.jpg", "w.jpg"]
GOOD = "path,label\na/x.jpg,cat\na/y.jpg,dog\n"


def table(folder, content, name="labels.csv"):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def read(folder, content, paths=PATHS, unreadable=(), root=None, name="labels.csv"):
    return read_labels(table(folder, content, name), root or folder, paths, unreadable)


def named(result):
    """Label names, None where there is none."""
    return [None if label < 0 else result.classes[label] for label in result.labels_M.tolist()]


def refused(folder, content, **more):
    """The one line that is said."""
    with pytest.raises(UserError) as caught:
        read(folder, content, **more)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(f"{folder / more.get('name', 'labels.csv')}: ")
    return line


def test_classes_are_sorted_and_labels_follow_the_images(tmp_path):
    result = read(tmp_path, "path,label\nw.jpg,dog\na/x.jpg,cat\nb/z.jpg,dog\n")
    assert result.classes == ("cat", "dog")
    assert result.labels_M.tolist() == [0, -1, 1, 1]
    assert result.labels_M.dtype == np.int64
    assert result.notes == ()


@pytest.mark.parametrize("header", ["path,label", "Path,LABEL", " path , label ", '"path","label"'])
def test_the_header_may_be_written_in_any_case_with_spaces_or_quotes(tmp_path, header):
    assert named(read(tmp_path, f"{header}\na/x.jpg,cat\nw.jpg,dog\n")) == ["cat", None, None, "dog"]


def test_other_columns_and_another_order_do_not_matter(tmp_path):
    content = "id,label,note,path\n1,cat,,a/x.jpg\n2,dog,good,w.jpg\n"
    assert named(read(tmp_path, content)) == ["cat", None, None, "dog"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_delimiters_byte_order_marks_and_line_ends(tmp_path, delimiter, bom, end):
    rows = [["path", "label"], ["a/x.jpg", "cat"], ["w.jpg", "dög"]]
    content = bom + end.join(delimiter.join(row) for row in rows).encode()
    assert named(read(tmp_path, content)) == ["cat", None, None, "dög"]


def test_the_header_decides_the_delimiter(tmp_path):
    result = read(tmp_path, "path;label\na/x.jpg;cat, big\nw.jpg;dog\tsmall\n")
    assert result.classes == ("cat, big", "dog\tsmall")


def test_quoted_fields_may_hold_delimiters_quotes_and_line_ends(tmp_path):
    result = read(
        tmp_path, 'path,label\n"a,b.jpg","the ""cat"""\nw.jpg,"two\nlines"\n', paths=["a,b.jpg", "w.jpg"]
    )
    assert named(result) == ['the "cat"', "two\nlines"]


def test_labels_are_text_and_stripped(tmp_path):
    result = read(tmp_path, "path,label\na/x.jpg, 007 \na/y.jpg,7\nw.jpg,7.0\n")
    assert result.classes == ("007", "7", "7.0")
    assert named(result) == ["007", "7", None, "7.0"]


def test_blank_lines_are_passed_over_and_counted(tmp_path):
    content = "\npath,label\n\na/x.jpg,cat\n  \n,\nw.jpg,dog\n\n"
    assert named(read(tmp_path, content)) == ["cat", None, None, "dog"]
    assert "row 9" in refused(tmp_path, content + "none.jpg,cat\n")


def test_an_empty_label_means_none_and_is_remarked(tmp_path):
    result = read(tmp_path, GOOD + "w.jpg, \nb/z.jpg,\n")
    assert named(result) == ["cat", "dog", None, None]
    assert result.notes == ("labels.csv: 2 rows have an empty label and count as unlabelled",)
    one = read(tmp_path, GOOD + "w.jpg,\na/x.jpg,\n")
    assert named(one) == ["cat", "dog", None, None]
    assert one.notes == ("labels.csv: 1 row has an empty label and counts as unlabelled",)


def test_the_same_label_twice_is_fine(tmp_path):
    assert named(read(tmp_path, GOOD + "./a/x.jpg,cat\n")) == ["cat", "dog", None, None]


@pytest.mark.parametrize(
    "written", ["a/x.jpg", "./a/x.jpg", "a\\x.jpg", ".\\a\\x.jpg", "a//x.jpg", "b/../a/x.jpg", " a/x.jpg "]
)
def test_ways_to_write_a_relative_path(tmp_path, written):
    assert named(read(tmp_path, f"path,label\n{written},cat\nw.jpg,dog\n"))[0] == "cat"


def test_an_absolute_path_inside_the_root(tmp_path):
    content = f"path,label\n{tmp_path}/images/a/x.jpg,cat\nw.jpg,dog\n"
    assert named(read(tmp_path, content, root=tmp_path / "images"))[0] == "cat"


def test_paths_through_a_link_to_the_root(tmp_path):
    (tmp_path / "images" / "a").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "images")
    real = f"path,label\n{tmp_path}/images/a/x.jpg,cat\nw.jpg,dog\n"
    linked = f"path,label\n{tmp_path}/link/a/x.jpg,cat\nw.jpg,dog\n"
    for content, root in ((real, "link"), (linked, "images"), (linked, "link")):
        assert named(read(tmp_path, content, root=tmp_path / root))[0] == "cat"


def test_a_relative_root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = f"path,label\n{tmp_path}/images/a/x.jpg,cat\nimages/w.jpg,dog\n"
    result = read_labels(table(Path(), content), Path("images"), PATHS)
    assert named(result) == ["cat", None, None, "dog"]


def test_paths_from_the_tables_own_folder(tmp_path):
    inside = read(tmp_path, "path,label\nx.jpg,cat\n../w.jpg,dog\n", name="a/labels.csv")
    assert named(inside) == ["cat", None, None, "dog"]
    beside = "path,label\n../images/a/x.jpg,cat\n../images/w.jpg,dog\n"
    outside = read(tmp_path, beside, name="tables/labels.csv", root=tmp_path / "images")
    assert named(outside) == ["cat", None, None, "dog"]


def test_the_root_comes_before_the_tables_own_folder(tmp_path):
    result = read(
        tmp_path,
        "path,label\nx.jpg,cat\ny.jpg,dog\n",
        paths=["a/x.jpg", "x.jpg", "a/y.jpg"],
        name="a/labels.csv",
    )
    assert named(result) == [None, "cat", "dog"]


@pytest.mark.parametrize("on_disk", ["NFC", "NFD"])
@pytest.mark.parametrize("in_table", ["NFC", "NFD"])
def test_a_difference_in_normalisation_does_not_matter(tmp_path, on_disk, in_table):
    path = unicodedata.normalize(on_disk, "café/ü.jpg")
    written = unicodedata.normalize(in_table, "café/ü.jpg")
    assert named(read(tmp_path, f"path,label\n{written},cat\nw.jpg,dog\n", paths=[path, "w.jpg"]))[0] == "cat"


def test_the_exact_name_comes_before_one_of_another_normalisation(tmp_path):
    paths = [unicodedata.normalize(form, "ü.jpg") for form in ("NFC", "NFD")]
    result = read(tmp_path, f"path,label\n{paths[1]},cat\n{paths[0]},dog\n", paths=paths)
    assert named(result) == ["dog", "cat"]


def test_labels_that_look_the_same_are_the_same(tmp_path):
    forms = [unicodedata.normalize(form, "blé") for form in ("NFC", "NFD")]
    result = read(tmp_path, f"path,label\na/x.jpg,{forms[0]}\na/y.jpg,{forms[1]}\nw.jpg,dog\n")
    assert result.classes == (forms[0], "dog")


def test_a_name_with_a_backslash_is_found_as_it_is(tmp_path):
    assert named(
        read(tmp_path, "path,label\na\\x.jpg,cat\nw.jpg,dog\n", paths=["a\\x.jpg", "a/x.jpg", "w.jpg"])
    ) == [
        "cat",
        None,
        "dog",
    ]


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1)


@settings(
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    labels=st.dictionaries(
        NAMES.filter(lambda name: "/" not in name and "\\" not in name), NAMES, min_size=2
    ),
    delimiter=st.sampled_from(",;\t"),
    bom=st.booleans(),
    end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_what_is_written_is_read(tmp_path, labels, delimiter, bom, end, quoting):
    labels = dict(
        zip(labels, [unicodedata.normalize("NFC", label) for label in labels.values()], strict=True)
    )
    labels |= {"first.jpg": "first", "second.jpg": "second"}
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerows([("path", "label"), *labels.items()])
    result = read(tmp_path, buffer.getvalue().encode("utf-8-sig" if bom else "utf-8"), paths=list(labels))
    assert named(result) == list(labels.values())
    assert result.classes == tuple(sorted(set(labels.values())))


def test_a_labelled_image_that_cannot_be_read_is_left_out_and_remarked(tmp_path):
    content = GOOD + "bad.jpg,cat\n"
    result = read(tmp_path, content, unreadable={"bad.jpg"})
    assert named(result) == ["cat", "dog", None, None]
    assert result.notes == ("labels.csv: 1 labelled image cannot be read and is left out: row 4, 'bad.jpg'",)
    assert read(tmp_path, GOOD + "bad.jpg,\n", unreadable={"bad.jpg"}).notes == ()


def test_of_many_that_cannot_be_read_three_are_named(tmp_path):
    bad = [f"{i}.jpg" for i in range(5)]
    result = read(tmp_path, GOOD + "".join(f"{name},bird\n" for name in bad), unreadable=bad)
    assert result.classes == ("cat", "dog")
    assert result.notes == (
        "labels.csv: 5 labelled images cannot be read and are left out: "
        "row 4, '0.jpg'; row 5, '1.jpg'; row 6, '2.jpg'; and 2 more",
    )


def test_no_such_file(tmp_path):
    with pytest.raises(UserError, match=rf"^{tmp_path}/none\.csv: no such file$"):
        read_labels(tmp_path / "none.csv", tmp_path, PATHS)


def test_a_file_that_is_not_utf8_is_refused_with_the_row(tmp_path):
    line = refused(tmp_path, GOOD.encode() + "w.jpg,blé\n".encode("latin-1"))
    assert "row 4 is not UTF-8 (byte 0xe9)" in line
    assert "row 1 is not UTF-8" in refused(tmp_path, GOOD.encode("utf-16"))
    marked = b"\xef\xbb\xbfpath,label\r\na/x.jpg,\xff\r\n"
    assert "row 2 is not UTF-8 (byte 0xff)" in refused(tmp_path, marked)


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", " \n"])
def test_an_empty_file(tmp_path, content):
    assert "the file is empty: a header 'path,label'" in refused(tmp_path, content)


@pytest.mark.parametrize("first", ["a/x.jpg,cat", "file,label", "path label", "path|label", "path,label;x"])
def test_a_missing_header_is_answered_with_the_first_line(tmp_path, first):
    line = refused(tmp_path, f"{first}\na/y.jpg,dog\n")
    assert f"the first line is '{first}'" in line
    assert "path,label" in line


def test_a_column_twice(tmp_path):
    line = refused(tmp_path, "path,label,Label\na/x.jpg,cat,dog\n")
    assert "row 1 has the column 'label' twice" in line


def test_a_row_with_too_few_fields(tmp_path):
    assert "row 4 has only 1 field, ['w.jpg']" in refused(tmp_path, GOOD + "w.jpg\n")
    line = refused(tmp_path, "id,path,label\n1,a/x.jpg,cat\n2,w.jpg\n")
    assert "row 3 has only 2 fields, ['2', 'w.jpg']" in line


def test_a_row_with_more_fields_than_the_header(tmp_path):
    assert "row 4 has 3 fields, ['w.jpg', 'cat', ' big']" in refused(tmp_path, GOOD + "w.jpg,cat, big\n")
    assert named(read(tmp_path, GOOD + "w.jpg,cat,,\n"))[3] == "cat"


def test_a_row_without_a_path(tmp_path):
    assert "row 4 has no path (its label is 'cat')" in refused(tmp_path, GOOD + " ,cat\n")


def test_a_quote_that_is_not_closed(tmp_path):
    assert "row 4 is not well-formed" in refused(tmp_path, GOOD + '"w.jpg,cat\nb/z.jpg,dog\n')
    assert "row 4 is not well-formed" in refused(tmp_path, GOOD + '"w"x.jpg,cat\n')


def test_a_label_for_a_missing_image(tmp_path):
    line = refused(tmp_path, GOOD + "none.jpg,cat\n")
    assert f"row 4: label for a missing image: 'none.jpg' is no image below {tmp_path}:" in line
    assert "perhaps" not in line
    assert "row 4: row for a missing image: 'none.jpg'" in refused(tmp_path, GOOD + "none.jpg,\n")


@pytest.mark.parametrize("written", ["z.jpg", "c/z.jpg", "b/Z.JPG", "images\\z.jpg"])
def test_a_missing_image_with_a_namesake_is_answered_with_a_hint(tmp_path, written):
    line = refused(tmp_path, GOOD + f"{written},cat\n")
    assert f"row 4: label for a missing image: {written!r}" in line
    assert "(perhaps b/z.jpg)" in line


def test_two_namesakes_give_no_hint(tmp_path):
    assert "perhaps" not in refused(tmp_path, "path,label\nx.jpg,cat\n", paths=["a/x.jpg", "b/x.jpg"])


@pytest.mark.parametrize("written", ["/elsewhere/w.jpg", "../../w.jpg", "..\\..\\w.jpg"])
def test_a_path_outside_the_root(tmp_path, written):
    line = refused(tmp_path, GOOD + f"{written},cat\n")
    assert f"row 4: label for a missing image: {written!r} is outside {tmp_path} (perhaps w.jpg)" in line


@pytest.mark.parametrize(
    "written", ["a\0.jpg", "a/" + "x" * 5000, ".", "a", "~/w.png", "C:\\data\\v.jpg", "loop/q.jpg"]
)
def test_odd_paths_are_missing_images(tmp_path, written):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "row 4: label for a missing image" in refused(tmp_path, GOOD + f"{written},cat\n")


def test_two_labels_for_one_image_are_named_with_both_rows(tmp_path):
    line = refused(tmp_path, GOOD + "w.jpg,cat\n./a/x.jpg,bird\n")
    assert "row 5 labels './a/x.jpg' 'bird', but row 2 labels it 'cat'" in line


def test_rows_are_counted_by_lines_also_after_a_field_of_two_lines(tmp_path):
    content = 'path,label,note\na/x.jpg,cat,"one\ntwo\nthree"\na/y.jpg,dog,\nnone.jpg,cat,"a\nb"\n'
    assert "row 6: label for a missing image: 'none.jpg'" in refused(tmp_path, content)


def test_only_one_class(tmp_path):
    line = refused(tmp_path, "path,label\nb/z.jpg,\nw.jpg,cat\na/x.jpg,cat\n")
    assert "only one class, 'cat' (row 3 is the first): at least two are needed" in line


@pytest.mark.parametrize("rows", ["", "a/x.jpg,\n", "bad.jpg,cat\n"])
def test_no_label_at_all(tmp_path, rows):
    assert "no label at all" in refused(tmp_path, f"path,label\n{rows}", unreadable=["bad.jpg"])


def test_a_folder_is_no_table(tmp_path):
    with pytest.raises(UserError, match=rf"^{tmp_path}: a folder, not a file$"):
        read_labels(tmp_path, tmp_path, PATHS)


def test_classes_that_differ_in_capitals_or_blanks_alone_are_named_and_stay_apart(tmp_path):
    found = read(tmp_path, "path,label\na/x.jpg,big cat\na/y.jpg,dog\nb/z.jpg,Big  cat \nw.jpg,DOG\n")
    assert found.classes == ("Big  cat", "DOG", "big cat", "dog")
    said = "'Big  cat' and 'big cat'; 'DOG' and 'dog': if they are the same, write them alike"
    assert found.notes == (f"labels.csv: classes that differ in capitals or blanks alone: {said}",)


def test_no_more_than_three_such_groups_are_named(tmp_path):
    paths = [f"{i}.jpg" for i in range(10)]
    rows = "".join(f"{i}.jpg,{'aAbBcCdDeE'[i]}\n" for i in range(10))
    (note,) = read(tmp_path, f"path,label\n{rows}", paths=paths).notes
    assert "'A' and 'a'; 'B' and 'b'; 'C' and 'c'; and 2 more: if" in note


def test_names_that_are_no_utf8_are_found_as_predictions_have_them(tmp_path):
    name = b"bl\xe9.jpg"
    found = read(tmp_path, b"path,label\n" + name + b",cat\nw.jpg,dog\n", [os.fsdecode(name), "w.jpg"])
    assert named(found) == ["cat", "dog"]
    assert "row 2 is not UTF-8 (byte 0xe9)" in refused(tmp_path, b"path,label\nno\xe9.jpg,cat\n")


def test_a_row_of_a_kind_that_is_not_read(tmp_path):
    (tmp_path / "a.heic").write_text("")
    line = refused(tmp_path, GOOD + "a.heic,cat\n")
    assert line.endswith(
        "row 4: 'a.heic': files .heic are not read: convert it to JPEG or PNG or take the row out"
    )
    assert "missing image" in refused(tmp_path, GOOD + "b.heic,cat\n")
    (tmp_path / "notes.txt").write_text("")
    line = refused(tmp_path, GOOD + "notes.txt,cat\n")
    assert line.endswith("row 4: 'notes.txt': files .txt are not read: take the row out")


def test_rows_of_test_images_are_passed_over_and_counted(tmp_path):
    file = table(tmp_path, GOOD + "test/1.jpg,cat\n./test/2.jpg,bird\n")
    found = read_labels(file, tmp_path, PATHS, for_testing=["test/1.jpg", "test/2.jpg"])
    assert found.classes == ("cat", "dog")
    assert found.notes == ("labels.csv: 2 rows are of test images, which are for testing alone",)
    file = table(tmp_path, GOOD + "test/1.jpg,cat\n")
    (note,) = read_labels(file, tmp_path, PATHS, for_testing=["test/1.jpg"]).notes
    assert note == "labels.csv: 1 row is of a test image, which is for testing alone"
