import os

import pytest

from semppl.core.errors import UserError
from semppl.data.listing import list_images


def touch(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x" * len(name))


def names(root):
    return list(list_images(root).paths)


def test_images_are_found_at_any_depth_and_nothing_else_is(tmp_path):
    images = ["a b/1.JPG", "a b/ü/[2].webp", "a/b/c/d/e.TiFF", "folder.png/x.gif", "z.png", "猫/狗.jpeg"]
    touch(tmp_path, *images)
    touch(tmp_path, "notes.txt", "png", "a/.hidden.png", ".git/x.png", "__MACOSX/x.png", "a/__MACOSX/b/x.png")
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "empty").mkdir()
    assert names(tmp_path) == images


def test_pictures_of_runs_and_masks_are_not_data(tmp_path):
    touch(tmp_path, "a.png", "a/b.png", "photos.masks/masks/a.png.png", "photos.masks/masks.json")
    touch(tmp_path, "run/sheet.png", "run/split.sha256", "run/config.yaml")
    assert names(tmp_path) == ["a.png", "a/b.png"]
    # unless they are asked for
    assert names(tmp_path / "photos.masks") == ["masks/a.png.png"]


def test_the_order_is_that_of_the_paths(tmp_path):
    # a slash sorts behind a full stop and before a letter
    touch(tmp_path, "b.png", "b/z.png", "b/a/1.png", "b a/1.png", "b0.png", "b.d/1.png", "a.png", "B.png")
    found = names(tmp_path)
    assert found == sorted(found)
    assert len(found) == 8


def test_lengths_and_times_belong_to_their_paths(tmp_path):
    images = ["b/22.png", "b/333.png", "c/1.png", "a.png"]
    touch(tmp_path, *images)
    for number, name in enumerate(images):
        os.utime(tmp_path / name, ns=(0, number))
    listing = list_images(tmp_path)
    assert listing.bytes_M.tolist() == [len(path) for path in listing.paths]
    assert listing.mtime_M.tolist() == [images.index(path) for path in listing.paths]
    assert listing.unreadable_folders == ()


def test_links_are_followed_and_broken_ones_are_listed(tmp_path):
    root = tmp_path / "root"
    touch(root, "a.png")
    touch(tmp_path, "elsewhere/in/1.png", "single.jpg")
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    (root / "file.jpg").symlink_to(tmp_path / "single.jpg")
    (root / "broken.png").symlink_to(tmp_path / "nowhere.png")
    (root / "itself.png").symlink_to(root / "itself.png")
    (root / "itself").symlink_to(root / "itself")
    (root / "broken folder").symlink_to(tmp_path / "nowhere")
    listing = list_images(root)
    found = dict(zip(listing.paths, listing.bytes_M.tolist(), strict=True))
    assert found == {"a.png": 5, "broken.png": -1, "file.jpg": 10, "itself.png": -1, "linked/in/1.png": 18}


def test_a_loop_of_links_ends_and_each_folder_is_listed_once_by_its_own_name(tmp_path):
    touch(tmp_path, "train/cat/1.png", "train/dog/2.png")
    (tmp_path / "latest").symlink_to(tmp_path / "train")
    (tmp_path / "train" / "cat" / "up").symlink_to(tmp_path)
    (tmp_path / "train" / "also").symlink_to(tmp_path / "train" / "dog")
    assert names(tmp_path) == ["train/cat/1.png", "train/dog/2.png"]


def test_two_links_to_a_folder_outside_give_it_the_first_name(tmp_path):
    touch(tmp_path, "outside/1.png", "root/x.png")
    for name in ("second", "first"):
        (tmp_path / "root" / name).symlink_to(tmp_path / "outside")
    assert names(tmp_path / "root") == ["first/1.png", "x.png"]


def test_names_that_are_not_utf8_survive(tmp_path):
    name = os.fsdecode(b"caf\xe9.png")
    touch(tmp_path, name)
    assert names(tmp_path) == [name]


def test_a_folder_that_cannot_be_opened_is_named(tmp_path, monkeypatch):
    touch(tmp_path, "a/1.png", "closed/2.png", "z/3.png")
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    listing = list_images(tmp_path)
    assert list(listing.paths) == ["a/1.png", "z/3.png"]
    assert listing.unreadable_folders == ("closed",)
    (tmp_path / "a" / "1.png").unlink()
    (tmp_path / "z" / "3.png").unlink()
    with pytest.raises(
        UserError, match=r"no image found in this folder .*; 1 of its folders cannot be opened"
    ):
        list_images(tmp_path)
    with pytest.raises(UserError, match="closed: this folder cannot be opened"):
        list_images(tmp_path / "closed")


def test_a_folder_that_is_none_or_has_no_image_is_named(tmp_path):
    with pytest.raises(UserError, match=r"nowhere: no such folder of images$"):
        list_images(tmp_path / "nowhere")
    touch(tmp_path, "notes.txt")
    with pytest.raises(UserError, match=r"notes\.txt is a file: give the folder"):
        list_images(tmp_path / "notes.txt")
    with pytest.raises(UserError, match=r"no image found in this folder \(\.bmp, \.gif.*\)$"):
        list_images(tmp_path)


def test_all_suffixes_of_a_jpeg_are_images(tmp_path):
    names = ["1.jfif", "2.jpe", "3.JIF", "4.jpeg", "5.jpg"]
    touch(tmp_path, *names)
    assert list(list_images(tmp_path).paths) == names
    assert list_images(tmp_path).unread == ""


def test_images_of_kinds_that_are_not_read_are_counted(tmp_path):
    touch(tmp_path, "1.jpg", "a/2.HEIC", "a/b/3.heic", ".4.heic", "5.svg", "6.txt", "__MACOSX/7.heic")
    said = "2 files .heic and 1 file .svg are not read: convert them to JPEG or PNG"
    assert list_images(tmp_path).unread == said
    (tmp_path / "1.jpg").unlink()
    with pytest.raises(UserError, match=rf"no image found in this folder .*; {said}$"):
        list_images(tmp_path)
    touch(tmp_path, "c/1.png", "c/2.avif")
    assert list_images(tmp_path / "c").unread == "1 file .avif is not read: convert it to JPEG or PNG"
