import csv
import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from semppl.core.errors import UserError
from semppl.data import checking
from semppl.data import scan as module
from semppl.data.files import check_file
from semppl.data.paths import Paths
from semppl.data.scan import Bad, Scan, as_written, bad_table, read_bad_table, require_readable, scan


@pytest.fixture
def root(tmp_path):
    """Five images and two files that are none."""
    folder = tmp_path / "images"
    for number, name in enumerate(["a/1.png", "a/2.jpg", "b/[3].png", "猫/4.webp", "猫/5.png"], start=1):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (10 + number, 20)).save(folder / name)
    (folder / "a" / "text.jpg").write_text("no image")
    (folder / "a" / "link.png").symlink_to(folder / "nowhere.png")
    return folder


@pytest.fixture
def looked(monkeypatch):
    """Names of the files that were looked at."""
    seen = []
    monkeypatch.setattr(checking, "check_file", lambda path: seen.append(Path(path).name) or check_file(path))
    return seen


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def everything(found):
    columns = (found.widths_M, found.heights_M, found.bytes_M, found.mtime_M)
    return list(found.paths), [column.tolist() for column in columns], found.bad


def test_readable_images_come_with_their_facts_and_bad_ones_with_a_reason(root):
    found = scan(root, cache=None)
    assert found.root == root
    assert list(found.paths) == ["a/1.png", "a/2.jpg", "b/[3].png", "猫/4.webp", "猫/5.png"]
    assert found.widths_M.tolist() == [11, 12, 13, 14, 15]
    assert found.heights_M.tolist() == [20] * 5
    assert found.widths_M.dtype == found.heights_M.dtype == np.int32
    facts = [(root / path).stat() for path in found.paths]
    assert found.bytes_M.tolist() == [fact.st_size for fact in facts]
    assert found.mtime_M.tolist() == [fact.st_mtime_ns for fact in facts]
    assert found.bad == (Bad("a/link.png", "broken link"), Bad("a/text.jpg", "not an image"))


def test_a_second_scan_looks_only_at_what_may_have_changed(root, cache, looked):
    first = scan(root, cache=cache)
    assert len(looked) == 7
    looked.clear()
    again = scan(root, cache=cache)
    assert looked == ["link.png"]
    assert everything(again) == everything(first)


def test_changed_new_and_vanished_files_are_noticed(root, cache, looked):
    scan(root, cache=cache)
    looked.clear()
    Image.new("RGB", (99, 9)).save(root / "a" / "1.png")  # another length
    os.utime(root / "b" / "[3].png", ns=(0, 5))  # another time
    (root / "猫" / "4.webp").unlink()
    for name in ("0.png", "z.png", "a/1 new.png"):
        Image.new("RGB", (50, 5)).save(root / name)
    found = scan(root, cache=cache)
    assert sorted(looked) == ["0.png", "1 new.png", "1.png", "[3].png", "link.png", "z.png"]
    assert everything(found) == everything(scan(root, cache=None))
    assert found.widths_M[list(found.paths).index("a/1.png")] == 99
    looked.clear()
    scan(root, cache=cache)
    assert looked == ["link.png"]


def test_a_vanished_file_is_forgotten(root, cache):
    scan(root, cache=cache)
    (root / "a" / "1.png").unlink()
    scan(root, cache=cache)
    (file,) = cache.iterdir()
    with np.load(file) as content:
        assert len(content["width"]) == 6


def test_one_file_for_each_folder_by_whatever_name(root, cache, looked, monkeypatch):
    scan(root, cache=cache)
    scan(root / "a", cache=cache)
    assert len(list(cache.iterdir())) == 2
    looked.clear()
    monkeypatch.chdir(root)
    scan(Path("a/.."), cache=cache)
    assert looked == ["link.png"]
    assert len(list(cache.iterdir())) == 2


def one_array():
    file = io.BytesIO()
    np.save(file, np.arange(3))
    return file.getvalue()


def rewritten(file, **changes):
    with np.load(file) as content:
        columns = {**content, **changes}
    np.savez(file, **{key: value for key, value in columns.items() if value is not None})


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"rubbish"),
        lambda file: file.write_bytes(file.read_bytes()[:-30]),
        lambda file: file.write_bytes(file.read_bytes()[:200] + b"\xff" * 200 + file.read_bytes()[400:]),
        lambda file: np.savez(file, something=np.arange(3)),
        lambda file: file.write_bytes(one_array()),
        lambda file: rewritten(file, version=np.array(99)),
        lambda file: rewritten(file, width=np.arange(3)),
        lambda file: rewritten(file, width=np.array(["x"] * 7)),
        lambda file: rewritten(file, offsets=np.arange(8)),
        lambda file: rewritten(file, problem=np.full(7, 5)),
        lambda file: rewritten(file, problem=np.full(7, -1)),
        lambda file: rewritten(file, problems=np.array(["a", "b", "c"])),
        lambda file: rewritten(file, mtime=None),
        lambda file: rewritten(file, names=np.array([{}], dtype=object)),
    ],
)
def test_a_damaged_or_foreign_memory_is_replaced(root, cache, looked, damage):
    first = scan(root, cache=cache)
    (file,) = cache.iterdir()
    damage(file)
    looked.clear()
    assert everything(scan(root, cache=cache)) == everything(first)
    assert len(looked) == 7
    looked.clear()
    scan(root, cache=cache)
    assert looked == ["link.png"]


def test_a_cache_that_cannot_be_written_is_no_error(root, tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert len(scan(root, cache=tmp_path / "file" / "cache").paths) == 5


def test_the_users_cache_is_where_the_system_has_it(root, tmp_path, monkeypatch, looked):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    scan(root)
    (file,) = (tmp_path / "xdg" / "semppl" / "scans").iterdir()
    assert len(file.stem) == 32
    assert file.suffix == ".npz"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    scan(root)
    assert (tmp_path / "home" / ".cache" / "semppl" / "scans" / file.name).is_file()
    looked.clear()
    scan(root, cache=None)
    assert len(looked) == 7


def test_progress_ends_at_the_number_of_files(root, cache, monkeypatch):
    monkeypatch.setattr(checking, "_CHUNK", 3)
    calls = []
    scan(root, cache=cache, advance=lambda done, total: calls.append((done, total)))
    assert calls == [(0, 7), (3, 7), (6, 7), (7, 7)]
    calls.clear()
    scan(root, cache=cache, advance=lambda done, total: calls.append((done, total)))
    assert calls == [(6, 7), (7, 7)]


def test_an_interrupt_passes_through_and_writes_nothing(root, cache):
    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scan(root, cache=cache, advance=interrupt)
    assert not cache.exists()


def test_a_folder_that_cannot_be_opened_is_among_the_bad(root, monkeypatch):
    listing = module.list_images(root)
    object.__setattr__(listing, "unreadable_folders", ("closed",))
    monkeypatch.setattr(module, "list_images", lambda root: listing)
    assert scan(root, cache=None).bad[-1] == Bad("closed/", "folder cannot be opened")


def made(num_good, *bad):
    nothing = np.zeros(num_good, dtype=np.int64)
    sides = nothing.astype(np.int32)
    return Scan(Path("images"), Paths(map(str, range(num_good))), sides, sides, nothing, nothing, bad=bad)


def test_too_many_bad_files_are_refused_in_one_line():
    bad = [Bad(f"{i}.png", "truncated") for i in range(5)]
    require_readable(made(95, *bad))
    require_readable(made(1))
    require_readable(made(0, *bad), most=1.0)
    with pytest.raises(UserError) as caught:
        require_readable(made(94, *bad))
    assert str(caught.value) == (
        "images: 5 of 99 images cannot be read: 0.png (truncated), 1.png (truncated), 2.png (truncated), …: "
        "repair or remove them, or go on without them by --allow-unreadable"
    )
    with pytest.raises(
        UserError, match=r"images: 1 of 10 images cannot be read: 0\.png \(truncated\): repair"
    ):
        require_readable(made(9, bad[0]))


def test_the_table_of_bad_files_can_be_read_again(tmp_path):
    bad = (Bad('a,"b"/猫.png', "truncated"), Bad("odd\udcff.jpg", "no, not an image"))
    with_lines = (*bad, Bad("a\rb\nc.png", "why\r"), Bad("d.png", ""))
    (tmp_path / "bad_files.csv").write_text(bad_table(with_lines), newline="")
    assert read_bad_table(tmp_path / "bad_files.csv") == {as_written(b.path): b.reason for b in with_lines}
    assert read_bad_table(tmp_path / "none.csv") == {}
    text = bad_table(bad)
    assert text.startswith("path,reason\n")
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[1:] == [['a,"b"/猫.png', "truncated"], ["odd\\udcff.jpg", "no, not an image"]]
    assert text.encode()
    assert bad_table(()) == "path,reason\n"
