"""Small files laid out as the four families were published."""

import io
from pathlib import Path

import pytest
import torch
from PIL import Image

from semppl.core.corruptions import CORRUPTIONS, SEVERITIES
from semppl.core.errors import UserError
from semppl.data.image import read_image
from semppl.data.objectnet import OBJECTNET
from semppl.data.robustness import FAMILIES, VARIANTS, robustness_sets
from semppl.data.wnids import wnid_index

TENCH, GOLDFISH, SHARK = "n01440764", "n01443537", "n01484850"


def pixels(kind):
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (200, 30, 30)).save(buffer, kind)
    return buffer.getvalue()


JPEG, PNG = pixels("JPEG"), pixels("PNG")


def write(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(PNG if path.endswith(".png") else JPEG)


def v2(root, variants=VARIANTS):
    for variant in variants:
        home = f"imagenetv2-{variant}-format-val"
        write(root, *(f"{home}/{label}/a{label}.jpeg" for label in (0, 1, 2, 10, 100, 999)))


def corrupted(root, corruptions=CORRUPTIONS, severities=SEVERITIES, archive=lambda corruption: ""):
    for corruption in corruptions:
        for severity in severities:
            home = Path(archive(corruption)) / corruption / str(severity)
            write(root, *(f"{home}/{wnid}/ILSVRC2012_val_{severity}.JPEG" for wnid in (TENCH, SHARK)))


def renditions(root):
    write(root, f"{GOLDFISH}/art_0.jpg", f"{GOLDFISH}/toy_1.jpg", f"{SHARK}/sketch_2.jpg")
    (root / "README.txt").write_text("renditions")


def objects(root):
    write(root, "images/wok/1.png", "images/alarm_clock/2.png", "images/t-shirt/3.png", "images/wrench/4.png")
    (root / "mappings").mkdir()
    (root / "mappings/folder_to_objectnet_label.json").write_text("{}")


def found(family, root):
    result = robustness_sets(family, root)
    sets = list(result)
    assert len(sets) == len(result)
    assert all(one.kind == family for one in sets)
    for one in sets:
        assert len(one.images) == len(one.labels_N) > 0
        assert one.labels_N.dtype == torch.int64
        assert read_image(one.images.path(0)).shape == (3, 8, 8)
    return result, sets


def test_imagenet_v2_classes_are_numbers_and_not_sorted_as_text(tmp_path):
    v2(tmp_path)
    result, sets = found("imagenet-v2", tmp_path)
    assert result.missing == ()
    assert [one.name for one in sets] == [f"imagenet-v2/{variant}" for variant in VARIANTS]
    for one in sets:
        assert sorted(one.labels_N.tolist()) == [0, 1, 2, 10, 100, 999]
        assert [Path(path).stem for path in one.images.paths] == [f"a{label}" for label in one.labels_N]
        assert (one.crop_border, one.published) == (0, 10_000)


def test_one_variant_of_imagenet_v2_is_used_and_the_others_are_named(tmp_path):
    v2(tmp_path, ["top-images"])
    result, sets = found("imagenet-v2", tmp_path)
    assert [one.name for one in sets] == ["imagenet-v2/top-images"]
    assert result.missing == ("imagenet-v2/matched-frequency", "imagenet-v2/threshold0.7")


def test_the_root_may_be_a_variant_itself_or_hold_the_project(tmp_path):
    v2(tmp_path / "ImageNetV2")
    own, _ = found("imagenet-v2", tmp_path / "ImageNetV2/imagenetv2-threshold0.7-format-val")
    assert list(own.places) == ["imagenet-v2/threshold0.7"]
    outer, _ = found("imagenet-v2", tmp_path)
    assert len(outer) == 3


def test_imagenet_c_has_five_severities_of_fifteen_corruptions(tmp_path):
    corrupted(tmp_path / "imagenet-c")
    corrupted(tmp_path / "imagenet-c", ["speckle_noise"])
    result, sets = found("imagenet-c", tmp_path)
    assert result.missing == ()
    assert len({one.name for one in sets}) == 75
    assert sets[0].name == "imagenet-c/gaussian_noise/1"
    fog = next(one for one in sets if one.name == "imagenet-c/fog/3")
    assert fog.images.path(0) == str(tmp_path / f"imagenet-c/fog/3/{TENCH}/ILSVRC2012_val_3.JPEG")
    assert fog.labels_N.tolist() == [wnid_index()[TENCH], wnid_index()[SHARK]] == [0, 2]
    assert (fog.crop_border, fog.published) == (0, 50_000)


@pytest.mark.parametrize("outer", ["imagenet-c", "ImageNet-C", ""])
def test_imagenet_c_may_lie_in_folders_of_its_archives(tmp_path, outer):
    archives = {"fog": "weather", "defocus_blur": "blur", "pixelate": "digital", "shot_noise": "noise"}
    corrupted(tmp_path / outer, list(archives), [1, 5], archives.get)
    result, sets = found("imagenet-c", tmp_path)
    assert {one.name for one in sets} == {f"imagenet-c/{name}/{i}" for name in archives for i in (1, 5)}
    assert len(result.missing) == 75 - 8
    assert "imagenet-c/fog/2" in result.missing
    assert not set(result.missing) & set(result.places)


@pytest.mark.parametrize("outer", ["imagenet-r", ""])
def test_imagenet_r(tmp_path, outer):
    renditions(tmp_path / outer)
    result, (one,) = found("imagenet-r", tmp_path)
    assert (one.name, result.missing) == ("imagenet-r", ())
    assert one.labels_N.tolist() == [1, 1, 2]
    assert list(one.images.paths) == [
        f"{GOLDFISH}/art_0.jpg",
        f"{GOLDFISH}/toy_1.jpg",
        f"{SHARK}/sketch_2.jpg",
    ]
    assert (one.crop_border, one.published) == (0, 30_000)


@pytest.mark.parametrize("outer", ["objectnet-1.0", "objectnet", ""])
def test_objectnet_without_the_classes_that_imagenet_has_not(tmp_path, outer):
    objects(tmp_path / outer)
    _, (one,) = found("objectnet", tmp_path)
    assert list(one.images.paths) == ["alarm_clock/2.png", "t-shirt/3.png", "wok/1.png"]
    assert [list(OBJECTNET)[label] for label in one.labels_N] == ["alarm_clock", "t-shirt", "wok"]
    assert one.labels_N[-1] == 112
    assert (one.crop_border, one.published) == (2, 18_574)


def test_the_folder_of_objectnets_images_may_be_the_root(tmp_path):
    objects(tmp_path / "objectnet-1.0")
    _, (one,) = found("objectnet", tmp_path / "objectnet-1.0/images")
    assert len(one.images) == 3


@pytest.mark.parametrize(
    ("family", "words"),
    [
        (
            "imagenet-v2",
            "put imagenetv2-matched-frequency-format-val/ and its two siblings of the ImageNetV2",
        ),
        ("imagenet-c", "put imagenet-c/CORRUPTION/SEVERITY/ of the ImageNet-C project"),
        ("imagenet-r", "put imagenet-r/ of the ImageNet-R project"),
        ("objectnet", "put objectnet-1.0/ of the ObjectNet project"),
    ],
)
def test_a_family_that_is_not_there_is_one_line(tmp_path, family, words):
    write(tmp_path, "lemon/1.png", "train/0/1.png")  # a user's own fruit is not ObjectNet's
    for root in (tmp_path, tmp_path / "nowhere", tmp_path / "lemon/1.png"):
        with pytest.raises(UserError) as caught:
            robustness_sets(family, root)
        line = str(caught.value)
        assert line.startswith(f"{family} is not in {root}: {words}")
        assert "\n" not in line
        assert "--root" in line


def test_an_unknown_family_is_answered_with_those_that_exist(tmp_path):
    with pytest.raises(
        UserError, match="unknown family of robustness sets 'imagenet-a': choose from imagenet-c"
    ):
        robustness_sets("imagenet-a", tmp_path)
    assert FAMILIES == ("imagenet-v2", "imagenet-c", "imagenet-r", "objectnet")


def test_a_class_that_the_family_does_not_have_is_refused(tmp_path):
    renditions(tmp_path / "imagenet-r")
    write(tmp_path, f"imagenet-r/{TENCH}/1.jpg")
    with pytest.raises(UserError, match=rf"{TENCH}/1.jpg is in no class folder of imagenet-r: remove it"):
        list(robustness_sets("imagenet-r", tmp_path))


def test_a_stray_image_beside_the_class_folders_is_refused(tmp_path):
    v2(tmp_path, ["top-images"])
    write(tmp_path, "imagenetv2-top-images-format-val/7.jpeg")
    with pytest.raises(UserError, match=r"7.jpeg is in no class folder of imagenet-v2"):
        list(robustness_sets("imagenet-v2", tmp_path))


def test_folders_without_images_are_refused(tmp_path):
    (tmp_path / "imagenet-c/fog/1").mkdir(parents=True)
    with pytest.raises(UserError, match=r"fog/1: no image found in this folder"):
        list(robustness_sets("imagenet-c", tmp_path))
    (tmp_path / "objectnet-1.0/images/wok").mkdir(parents=True)
    write(tmp_path, "objectnet-1.0/images/wrench/1.png")
    with pytest.raises(UserError, match=r"images: no image in the class folders of objectnet"):
        list(robustness_sets("objectnet", tmp_path))


def test_sets_are_listed_when_they_are_asked_for(tmp_path):
    corrupted(tmp_path, ["fog"], [1, 2])
    sets = iter(robustness_sets("imagenet-c", tmp_path))
    assert len(next(sets).images) == 2
    write(tmp_path, f"fog/2/{GOLDFISH}/late.JPEG")
    assert next(sets).labels_N.tolist() == [0, 1, 2]


def test_imagenet_itself_is_not_taken_for_imagenet_r(tmp_path):
    root = tmp_path / "train"
    renditions(root)
    list(robustness_sets("imagenet-r", root))
    write(root, f"{TENCH}/1.jpg")
    with pytest.raises(UserError, match="imagenet-r is not in"):
        robustness_sets("imagenet-r", root)
