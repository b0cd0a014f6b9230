import pytest

from semppl.core.errors import UserError
from semppl.core.staging import put_, require_free, staged

OURS = {"config.json"}


def everything(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_free_place_is_one_with_nothing_in_it(tmp_path):
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "a" / "b"):
        require_free(place, ours=OURS, overwrite=False)
    assert everything(tmp_path) == ["empty"]


def test_only_our_files_are_replaced_and_only_when_told(tmp_path):
    (tmp_path / "config.json").touch()
    with pytest.raises(UserError, match=r"is there already: choose another --out, or use --overwrite"):
        require_free(tmp_path, ours=OURS, overwrite=False)
    require_free(tmp_path, ours=OURS, overwrite=True)
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(UserError, match=r"holds more than an export \(thesis.tex\)"):
        require_free(tmp_path, ours=OURS, overwrite=True)


def test_a_folder_with_the_name_of_our_file_is_not_ours(tmp_path):
    (tmp_path / "config.json").mkdir()
    with pytest.raises(UserError, match="holds more than an export"):
        require_free(tmp_path, ours=OURS, overwrite=True)


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match=r"file is a file: choose another --out"):
            require_free(place, ours=OURS, overwrite=True)


def test_a_failure_leaves_nothing_not_even_the_folders_above(tmp_path):
    def fail(place):
        with staged(place) as folder:
            (folder / "config.json").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail(tmp_path / "export" / "timm")
    assert everything(tmp_path) == []


def test_a_finished_folder_appears_as_a_whole(tmp_path):
    place = tmp_path / "export" / "timm"
    with staged(place) as folder:
        (folder / "config.json").write_text("new")
        assert not place.exists()
        put_(folder, place)
    assert everything(tmp_path) == ["export", "export/timm", "export/timm/config.json"]


def test_what_was_there_goes_only_when_the_new_one_has_come(tmp_path):
    place = tmp_path / "timm"
    place.mkdir()
    (place / "old.json").touch()
    with pytest.raises(FileNotFoundError):
        put_(tmp_path / "never written", place)
    assert everything(tmp_path) == ["timm", "timm/old.json"]
    with staged(place) as folder:
        (folder / "config.json").touch()
        put_(folder, place)
    assert everything(tmp_path) == ["timm", "timm/config.json"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far")
    with staged(tmp_path / "link") as folder:
        (folder / "config.json").touch()
        put_(folder, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "far" / "config.json").is_file()
