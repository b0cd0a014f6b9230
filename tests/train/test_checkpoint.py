import errno
import os
import pickle
import random
import zipfile
from pathlib import Path

import pytest
import torch
from tests.core.test_rundir import files_of_at_most
from tests.train.test_state import directory, same

import semppl.train.checkpoint as module
from semppl.core.errors import UserError
from semppl.train.checkpoint import (
    FORMAT,
    keep_checkpoint,
    load_checkpoint,
    newest_checkpoint,
    required_checkpoint,
    sound_checkpoint,
    write_checkpoint,
)


def state(step):
    generator = torch.Generator().manual_seed(step)
    weights = {"w": torch.randn(5, 4, generator=generator), "n": torch.arange(6)}
    return {"step": step, "online": weights, "optimizer": [{"lr": 0.5}]}


@pytest.fixture
def run(tmp_path):
    return directory(tmp_path)


def written(run, *steps):
    return [write_checkpoint(run, state(step), {"config": "seed: 1"}) for step in steps]


def flipped(data, bit):
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def spoil_(path):
    """A bit of the numbers."""
    data = path.read_bytes()
    path.write_bytes(
        flipped(data, 8 * data.index(state(int(path.stem[5:]))["online"]["w"].numpy().tobytes()))
    )


def names(run):
    return sorted(path.name for path in run.checkpoints.iterdir())


def heard(run):
    """What is found, and what is said."""
    lines = []
    return sound_checkpoint(run, lines.append), lines


def refused_or_the_same(path, data, expected):
    path.unlink()  # disks are slow to write over a file
    path.write_bytes(data)
    try:
        content = load_checkpoint(path)
    except UserError:
        return False
    assert same(content, expected)
    return True


def test_any_flipped_bit_is_refused_or_changes_nothing(run):
    (path,) = written(run, 3)
    data, expected = path.read_bytes(), load_checkpoint(path)
    bits = random.Random(0).sample(range(8 * len(data)), 1500)
    harmless = sum(refused_or_the_same(path, flipped(data, bit), expected) for bit in bits)
    assert 0 < harmless < len(bits) / 2, "padding, dates"


def test_every_bit_of_the_entries_counts(run):
    """Among them the mark of a folder, which torch takes for nothing to read."""
    (path,) = written(run, 3)
    data, expected = path.read_bytes(), load_checkpoint(path)
    with zipfile.ZipFile(path) as archive:
        start = archive.start_dir
        (entry,) = (each for each in archive.infolist() if each.filename.endswith("data/0"))
    # offset of the attributes in an entry, found by its name, which comes 8 bytes after them
    attributes = data.index(entry.filename.encode(), start) - 8
    for bit in range(8 * attributes, 8 * attributes + 32):
        assert not refused_or_the_same(path, flipped(data, bit), expected)
    path.write_bytes(flipped(data, 8 * attributes + 4))
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None, "the checksum alone does not see it"
    with pytest.raises(UserError, match=r"the checksum or the entry of archive/data/0 is wrong"):
        load_checkpoint(path)


def test_any_cut_is_refused(run):
    (path,) = written(run, 3)
    data = path.read_bytes()
    for length in (0, 1, len(data) - 1, *random.Random(0).sample(range(len(data)), 300)):
        path.write_bytes(data[:length])
        with pytest.raises(UserError, match="is damaged"):
            load_checkpoint(path)


@pytest.mark.parametrize("blocks", [1, 3])
def test_blocks_of_zeros_are_refused_or_change_nothing(run, blocks):
    """What a disk gives back that lost power before it wrote."""
    (path,) = written(run, 3)
    data, expected = path.read_bytes(), load_checkpoint(path)
    draw = random.Random(blocks)
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(blocks):
            start = draw.randrange(len(data))
            end = min(start + 512, len(data))
            changed[start:end] = bytes(end - start)
        refused_or_the_same(path, bytes(changed), expected)


def test_the_newest_sound_one_is_found_without_a_word(run):
    assert newest_checkpoint(run) is None
    assert heard(run) == (None, [])
    with pytest.raises(UserError, match=r"no checkpoint yet: go on with `semppl pretrain --resume --out"):
        required_checkpoint(run, print)
    run.kept.write_text("{}")
    with pytest.raises(UserError, match=r"small copy of a run, for tables alone \(kept\.json\)"):
        required_checkpoint(run, print)
    run.kept.unlink()
    _, path = written(run, 100, 200)
    (run.checkpoints / "step-00000300.ckpt").mkdir()
    found, lines = heard(run)
    assert found.path == newest_checkpoint(run) == path
    assert same(found.content["state"], state(200))
    assert not lines
    assert required_checkpoint(run, print).path == path


def test_each_damaged_newer_one_is_named_and_the_one_before_them_used(run):
    _, two, three = written(run, 100, 200, 300)
    spoil_(two)
    three.write_bytes(three.read_bytes()[:-40])
    found, lines = heard(run)
    assert same(found.content["state"], state(100))
    assert lines == [
        f"{three} is damaged (File is not a zip file): going on with step-00000100.ckpt",
        f"{two} is damaged (the checksum or the entry of archive/data/0 is wrong): going on with "
        "step-00000100.ckpt",
    ]
    with pytest.raises(UserError, match=r"is damaged .*, or no checkpoint: give another one"):
        load_checkpoint(three)


def test_where_all_are_damaged_the_newest_is_named(run):
    for path in written(run, 100, 200):
        spoil_(path)
    with pytest.raises(UserError, match=r"step-00000200\.ckpt is damaged .*: start a new run") as refused:
        heard(run)
    assert "\n" not in str(refused.value)


def test_a_newest_one_that_is_of_another_version_foreign_or_forbidden_is_not_passed_over(run, monkeypatch):
    written(run, 100)
    path = run.checkpoints / "step-00000200.ckpt"
    for content in ({"format": FORMAT + 1, "state": state(200)}, {"weights": 1}, [1]):
        torch.save(content, path)
        with pytest.raises(UserError, match=r"00200\.ckpt: not a checkpoint of this version"):
            heard(run)
    torch.save({"format": FORMAT, "state": Path("x")}, path)
    with pytest.raises(UserError, match=r"00200\.ckpt: holds more than tensors and plain values"):
        heard(run)

    def refuse(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(module, "ZipFile", refuse)
    with pytest.raises(UserError, match=r"00200\.ckpt: may not be read \(Permission denied\)"):
        heard(run)


def test_one_that_a_run_at_work_has_just_dropped_is_not_missed(run, monkeypatch):
    (old,) = written(run, 100)
    real = module.ZipFile

    def opened(path):
        if path == old:
            old.unlink()
            written(run, 200)
        return real(path)

    monkeypatch.setattr(module, "ZipFile", opened)
    found, lines = heard(run)
    assert found.path.name == "step-00000200.ckpt"
    assert not lines


def test_a_disk_that_cannot_read_a_block_is_damage(run, monkeypatch):
    one, two = written(run, 100, 200)
    real = module.ZipFile

    def opened(path):
        if path == two:
            raise OSError(5, "Input/output error")
        return real(path)

    monkeypatch.setattr(module, "ZipFile", opened)
    found, (line,) = heard(run)
    assert found.path == one
    assert "Input/output error" in line


def test_only_the_newest_stay_and_last_points_at_the_newest(run):
    for step in (1, 2, 30):
        path = keep_checkpoint(run, state(step), {}, keep=2)
    assert names(run) == ["last", "step-00000002.ckpt", "step-00000030.ckpt"]
    assert (run.checkpoints / "last").resolve() == path == newest_checkpoint(run)


def test_damaged_ones_that_the_run_went_back_behind_do_not_push_out_sound_ones(run):
    for path in written(run, 100, 200, 300)[1:]:
        spoil_(path)
    keep_checkpoint(run, state(150), {}, keep=2)
    assert names(run) == ["last", "step-00000100.ckpt", "step-00000150.ckpt"]
    assert heard(run)[0].path.name == "step-00000150.ckpt"


def test_nothing_is_dropped_before_the_new_one_is_whole(run, monkeypatch):
    keep_checkpoint(run, state(1), {}, keep=1)
    before = names(run)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_atomically", full)
        with pytest.raises(OSError, match="No space left"):
            keep_checkpoint(run, state(2), {}, keep=1)
    assert names(run) == before


def test_a_disk_without_links_is_written_to_all_the_same(run, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    keep_checkpoint(run, state(1), {}, keep=1)
    assert names(run) == ["step-00000001.ckpt"]


def test_a_full_disk_is_an_error_of_the_disk_whatever_torch_makes_of_it(run):
    content = {"step": 3, "w": torch.zeros(100_000)}
    with Path("/dev/full").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left on"):
        module._save(content, file)
    with files_of_at_most(50_000):
        with (run.path / "x").open("wb") as file, pytest.raises(RuntimeError, match="enforce fail"):
            torch.save(content, file)
        with pytest.raises(OSError, match="File too large"):
            write_checkpoint(run, content, {})
    assert names(run) == []


def test_missing_and_foreign_files_are_refused(tmp_path):
    for path in (tmp_path / "none.ckpt", tmp_path):
        with pytest.raises(UserError, match="no such checkpoint"):
            load_checkpoint(path)
    (tmp_path / "junk.ckpt").write_bytes(b"junk")
    with pytest.raises(UserError, match=r"junk\.ckpt is damaged .*, or no checkpoint: give another one"):
        load_checkpoint(tmp_path / "junk.ckpt")


class Bomb:
    """Makes a folder when it is unpickled."""

    def __init__(self, mark):
        self._mark = mark

    def __reduce__(self):
        return (os.mkdir, (str(self._mark),))


def hostile_files(folder, mark):
    """The same pickle as it is, in torch's archive with right checksums, and in torch's old format."""
    content = {"format": FORMAT, "state": Bomb(mark)}
    (folder / "pickle").write_bytes(pickle.dumps(content))
    torch.save(content, folder / "archive")
    torch.save(content, folder / "old", _use_new_zipfile_serialization=False)
    return [folder / name for name in ("pickle", "archive", "old")]


def test_nothing_in_a_checkpoint_is_executed(tmp_path, run):
    mark = tmp_path / "executed"
    for file in hostile_files(tmp_path, mark):
        if file.name != "pickle":
            torch.load(file, weights_only=False)
            mark.rmdir()  # so it would have worked
        with pytest.raises(UserError):
            load_checkpoint(file)
        file.replace(run.checkpoints / "step-00000009.ckpt")
        with pytest.raises(UserError):
            heard(run)
        assert not mark.exists()


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EPERM])
def test_a_disk_without_links_keeps_its_checkpoints(run, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "symlink_to", refuse)
    keep_checkpoint(run, state(1), {}, keep=2)
    assert names(run) == ["step-00000001.ckpt"]
    assert same(sound_checkpoint(run, print).content["state"], state(1))


def test_a_disk_without_room_for_a_link_is_full(run, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "symlink_to", refuse)
    with pytest.raises(OSError, match="No space"):
        keep_checkpoint(run, state(1), {}, keep=2)
