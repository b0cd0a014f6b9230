from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from tests.conftest import save_stripes, stripes

from semppl.core.errors import UserError
from semppl.data import files, masks
from semppl.data.image import read_image
from semppl.data.mask_search import masks_in_memory, with_masks
from semppl.data.masks import read_mask, write_mask
from semppl.data.request import Request
from semppl.data.source import load_dataset


def mask_of(number, height=8, width=8):
    return np.random.default_rng(number).random((height, width)) < 0.6


def write_all(folder, names, height=8, width=8):
    for number, name in enumerate(names):
        write_mask(folder / name, mask_of(number, height, width))


def names_of(root):
    return [path.relative_to(root).as_posix() for path in sorted(root.rglob("*.png"))]


def load(source, **options):
    options = {"masks": None, "feed": "streaming", "workers": 0, **options}
    if source.is_dir():
        options = {"labels_per_class": 1, **options}
    return load_dataset(Request(source=str(source), **options))


def ours(root):
    """A place as the verb leaves it, beside the images."""
    place = root.with_name(f"{root.name}.masks")
    place.mkdir()
    (place / "masks.json").write_text("{}")
    return place


def notes_of(data):
    return [note for note in data.notes if note.startswith("mask")]


def test_masks_beside_the_images_are_found_by_themselves(class_folders):
    names, place = names_of(class_folders), ours(class_folders)
    write_all(place / "masks", [f"{name}.png" for name in names])
    data = load(class_folders)
    assert data.masks_place == str(place)
    assert data.mask_files is not None
    for i in (0, 17, 35):
        assert np.array_equal(read_mask(data.mask_files.path(i)), mask_of(i))
    assert notes_of(data) == [f"masks: 36 of 36 images have one in {place}"]
    memory = load(class_folders, feed="resident")
    assert memory.mask_files is None
    assert np.array_equal(memory.masks_MHW.numpy(), np.stack([mask_of(i) for i in range(36)]))
    for words in ("none", "own"):
        without = load(class_folders, masks=words)
        assert without.mask_files is without.masks_MHW is without.masks_place is None
        assert not notes_of(without)


def test_a_folder_with_the_name_of_a_word_is_told_how_it_is_meant(class_folders, tmp_path, monkeypatch):
    write_all(tmp_path / "own", [f"{name}.png" for name in names_of(class_folders)])
    monkeypatch.chdir(tmp_path)
    word = load(class_folders, masks="own")
    assert word.mask_files is None
    assert [note.endswith("--masks ./own") for note in notes_of(word)] == [True]
    assert load(class_folders, masks="./own").mask_files is not None


def test_a_folder_of_the_users_own_may_leave_suffixes_out(class_folders, tmp_path, monkeypatch):
    names = names_of(class_folders)
    # where both are, the full name counts
    write_all(tmp_path / "mine", [*names, "cat/000.png.png"])
    monkeypatch.chdir(tmp_path)
    data = load(class_folders, masks="mine")
    assert data.masks_place == str(tmp_path / "mine")
    assert [data.mask_files.paths[i] for i in (0, 1)] == ["cat/000.png.png", "cat/001.png"]


def test_masks_of_a_train_folder_begin_with_its_name(tmp_path):
    for part in ("train", "val"):
        for label, name in enumerate(("cat", "dog")):
            save_stripes(tmp_path / "data" / part / name, [label] * 3, seed=3 * label + (part == "val"))
    place = ours(tmp_path / "data")
    write_all(place / "masks", [f"{name}.png" for name in names_of(tmp_path / "data")])
    data = load(tmp_path / "data")
    assert data.mask_files.paths[0] == "train/cat/000.png.png"
    assert len(data.mask_files.present_N) == len(data.labels_M) == 6


def test_what_is_missing_unreadable_or_of_another_size_is_named_and_absent(class_folders):
    names, place = names_of(class_folders), ours(class_folders)
    write_all(place / "masks", [f"{name}.png" for name in names])
    folder = place / "masks"
    for name in names[:5]:
        (folder / f"{name}.png").unlink()
    (folder / f"{names[7]}.png").write_bytes(b"junk")
    write_mask(folder / f"{names[9]}.png", mask_of(9, 4, 6))
    write_mask(folder / "unasked.png", mask_of(0, 3, 3))
    expected = (
        f"masks: 29 of 36 images have one in {place}; "
        "missing for 5: cat/000.png, cat/001.png, cat/002.png, …; "
        "unreadable for 1: cat/007.png (not an image); "
        "of another size for 1: cat/009.png (6×4, the image is 8×8)"
    )
    data = load(class_folders)
    assert notes_of(data) == [expected]
    absent = [0, 1, 2, 3, 4, 7, 9]
    assert [i for i in range(36) if data.mask_files.path(i) is None] == absent
    memory = load(class_folders, feed="resident")
    assert notes_of(memory) == [expected]
    assert memory.masks_MHW[absent].all()
    assert np.array_equal(memory.masks_MHW[8].numpy(), mask_of(8))


@pytest.mark.parametrize("feed", ["streaming", "resident"])
def test_a_place_without_a_fitting_mask_is_one_note(class_folders, feed):
    place = ours(class_folders)
    data = load(class_folders, feed=feed)
    assert notes_of(data) == [f"masks: there is none in {place}: no background is removed"]
    write_all(place / "masks", ["elsewhere.png"])
    data = load(class_folders, feed=feed)
    (note,) = notes_of(data)
    assert "no image has one in" in note
    assert "looked for cat/000.png.png" in note
    assert data.mask_files is data.masks_MHW is None
    assert data.masks_place == str(place)


@pytest.mark.parametrize("feed", ["streaming", "resident"])
def test_a_place_without_a_readable_mask_is_one_note(class_folders, feed):
    folder = ours(class_folders) / "masks" / "cat"
    folder.mkdir(parents=True)
    (folder / "000.png.png").write_bytes(b"junk")
    data = load(class_folders, feed=feed)
    (note,) = notes_of(data)
    assert note.endswith("; unreadable for 1: cat/000.png (not an image)")
    assert data.mask_files is data.masks_MHW is None


def test_masks_keep_their_fingerprint_where_they_go_and_lose_it_with_one_of_them(class_folders, tmp_path):
    names, place = names_of(class_folders), ours(class_folders)
    empty = load(class_folders).masks_fingerprint
    write_all(place / "masks", [f"{name}.png" for name in names])
    known = load(class_folders).masks_fingerprint
    assert load(class_folders, masks="none").masks_fingerprint is None
    assert len({None, empty, known}) == 3
    assert load(class_folders, feed="resident").masks_fingerprint == known
    write_all(tmp_path / "mine", names)  # elsewhere, and by their other names
    assert load(class_folders, masks=str(tmp_path / "mine")).masks_fingerprint == known
    last = tmp_path / "mine" / names[-1]
    Image.fromarray(mask_of(35)).convert("RGB").save(last)  # of another size
    changed = load(class_folders, masks=str(tmp_path / "mine")).masks_fingerprint
    last.unlink()
    missing = load(class_folders, masks=str(tmp_path / "mine")).masks_fingerprint
    assert len({known, changed, missing}) == 3


def test_without_a_place_there_is_nothing_to_say_and_a_named_one_must_be_there(class_folders, tmp_path):
    data = load(class_folders)
    assert data.masks_place is None
    assert not notes_of(data)
    with pytest.raises(UserError, match=r"--masks .*gone: no such folder: say where .* --masks none"):
        load(class_folders, masks=str(tmp_path / "gone"))


def test_images_of_an_array_are_known_by_their_number(npz, tmp_path):
    write_all(tmp_path / "stripes.npz.masks", [f"{i:06d}.png" for i in range(47)])
    data = load(npz)
    assert np.array_equal(data.masks_MHW[:47].numpy(), np.stack([mask_of(i) for i in range(47)]))
    assert data.masks_MHW[47].all()
    place = tmp_path / "stripes.npz.masks"
    assert notes_of(data) == [f"masks: 47 of 48 images have one in {place}; missing for 1: x[47]"]


def test_the_masks_in_a_file_go_before_those_beside_it(tmp_path):
    own = np.stack([mask_of(100 + i) for i in range(6)])
    path = tmp_path / "d.npz"
    np.savez(path, x=stripes([0, 1] * 3), y=np.array([0, 1] * 3), masks=own)
    place = tmp_path / "d.npz.masks"
    write_all(place, [f"{i:06d}.png" for i in range(6)])
    for words in (None, "own"):
        assert np.array_equal(load(path, masks=words).masks_MHW.numpy(), own)
    assert load(path, masks="none").masks_MHW is None
    assert np.array_equal(load(path, masks=str(place)).masks_MHW[3].numpy(), mask_of(3))


def test_digits_have_masks_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_all(tmp_path / "digits.masks", ["000003.png"])
    data = load_dataset(Request(source="digits", masks=None))
    assert np.array_equal(data.masks_MHW[3].numpy(), mask_of(0))
    assert int((~data.masks_MHW).any(2).any(1).sum()) == 1


def test_grey_thin_and_turned_images_have_masks_as_they_are_seen(tmp_path):
    root = tmp_path / "odd"
    for name in ("a", "b"):
        (root / name).mkdir(parents=True)
    Image.fromarray(np.arange(9, dtype=np.uint8)[:, None]).save(root / "a" / "thin.png")
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    Image.fromarray(np.zeros((4, 7, 3), np.uint8)).save(root / "b" / "turned.jpg", exif=exif)
    place = ours(root)
    write_mask(place / "masks/a/thin.png.png", mask_of(1, 9, 1))
    write_mask(place / "masks/b/turned.jpg.png", mask_of(2, 7, 4))
    data = load(root)
    assert len(data.mask_files.present_N) == 2
    for i in range(2):
        assert read_mask(data.mask_files.path(i)).shape == read_image(data.images.path(i)).shape[1:]


def test_masks_of_huge_images_may_have_their_full_size(tmp_path, monkeypatch):
    root = tmp_path / "large"
    for level, name in enumerate(("a", "b")):
        (root / name).mkdir(parents=True)
        Image.fromarray(np.full((30, 20, 3), level, np.uint8)).save(root / name / f"{name}.png")
    place = ours(root)
    write_mask(place / "masks/a/a.png.png", np.ones((30, 20), bool))
    write_mask(place / "masks/b/b.png.png", np.ones((15, 10), bool))
    assert len(load(root).mask_files.present_N) == 1
    for module in (files, masks):
        monkeypatch.setattr(module, "SHRUNK_ABOVE", 150)
    assert len(load(root).mask_files.present_N) == 2


def test_a_mask_that_goes_bad_while_it_is_read_into_memory_is_named(class_folders):
    names, place = names_of(class_folders), ours(class_folders)
    write_all(place / "masks", [f"{name}.png" for name in names])
    request = Request(source=str(class_folders), masks=None, labels_per_class=1)
    found = with_masks(load(class_folders, masks="own"), request)
    bad = place / "masks" / f"{names[4]}.png"
    bad.write_bytes(b"junk")
    data = masks_in_memory(replace(found, images=torch.zeros(36, 3, 8, 8, dtype=torch.uint8)), request)
    assert data.masks_MHW[4].all()
    assert data.notes[-1] == f"mask {bad}: not a readable image (not an image): treated as absent"


def test_who_listens_hears_how_far_the_looking_is(class_folders):
    heard, place = [], ours(class_folders)
    write_all(place / "masks", [f"{name}.png" for name in names_of(class_folders)])
    load(class_folders, feed="resident", advance=lambda *what: heard.append(what))
    assert ("looking at masks", 36, 36) in heard
    assert ("reading masks", 36, 36) in heard


def test_masks_count_where_pixels_must_fit_into_memory(class_folders):
    pixels = 36 * 8 * 8
    place = ours(class_folders)
    write_all(place / "masks", [f"{name}.png" for name in names_of(class_folders)])
    for words, memory, fits in (("none", 3, True), (None, 3, False), (None, 4, True)):
        data = load(class_folders, feed="auto", masks=words, memory=memory * pixels)
        assert isinstance(data.images, torch.Tensor) is fits
