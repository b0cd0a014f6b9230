import itertools

import pytest

from semppl.core.errors import UserError
from semppl.released.selective import match_kernels

MIDDLE, REDUCED = 128, 32
PATH = (3, 3, MIDDLE // 32, MIDDLE)
NORMS = {"norm_0": MIDDLE, "norm_1": MIDDLE, "norm_2": REDUCED}
DOWN, BOTH, EACH = (MIDDLE, REDUCED), (REDUCED, 2 * MIDDLE), (REDUCED, MIDDLE)
KERNELS = {"conv_0": PATH, "conv_1": PATH, "down": DOWN, "up": BOTH}


def match(kernels=KERNELS, norms=NORMS):
    return match_kernels(kernels, norms, path=PATH, reduced=REDUCED, where="file.pkl: block_group_0/block_0/")


def as_conv(shape):
    return (1, 1, *shape)


@pytest.mark.parametrize(("down", "up"), [*itertools.product([DOWN, as_conv(DOWN)], [BOTH, as_conv(BOTH)])])
def test_one_layer_to_both_paths(down, up):
    assert match({"a": up, "b": PATH, "c": down, "d": PATH}, {"e": REDUCED, "f": MIDDLE, "g": MIDDLE}) == {
        "paths.0.conv": ("b",),
        "paths.0.bn": ("f",),
        "paths.1.conv": ("d",),
        "paths.1.bn": ("g",),
        "attn.fc_reduce": ("c",),
        "attn.bn": ("e",),
        "attn.fc_select": ("a",),
    }


@pytest.mark.parametrize("each", [EACH, as_conv(EACH)])
def test_one_layer_to_each_path(each):
    kernels = {"up_1": each, "conv_0": PATH, "up_0": each, "conv_1": PATH, "down": DOWN}
    assert match(kernels)["attn.fc_select"] == ("up_0", "up_1")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("path_2/conv", "path_10/conv"),
        ("path_0/~/conv", "path_1/~/conv"),
        ("conv", "conv_1"),
        ("conv2_d", "conv2_d_1"),
        ("conv_3x3", "conv_5x5"),
        ("conv_1", "conv_1_dilated"),
        ("plain/conv", "dilated/conv"),
    ],
)
def test_the_order_of_names_decides_between_equal_shapes(first, second):
    for names in ((first, second), (second, first)):
        kernels = {**dict.fromkeys(names, PATH), "x": DOWN, **{f"{name}_to": EACH for name in names}}
        norms = {**{f"{name}_norm": MIDDLE for name in names}, "z": REDUCED}
        found = match(kernels, norms)
        assert (found["paths.0.conv"], found["paths.1.conv"]) == ((first,), (second,))
        assert (found["paths.0.bn"], found["paths.1.bn"]) == ((f"{first}_norm",), (f"{second}_norm",))
        assert found["attn.fc_select"] == (f"{first}_to", f"{second}_to")


@pytest.mark.parametrize(
    ("paths", "norms"),
    [
        (["conv", "wide_conv"], ["norm", "wide_norm"]),  # conv < wide_conv, norm < wide_norm
        (["conv", "far_conv"], ["norm", "far_norm"]),  # but far_norm < norm
        (["conv_0", "conv_1"], ["norm_1", "norm_2"]),  # no word in common: their own order
        (["conv_3x3", "conv_5x5"], ["bn_a", "bn_b"]),
    ],
)
def test_norms_go_with_the_path_whose_words_they_have(paths, norms):
    found = match(
        {**dict.fromkeys(paths, PATH), "x": DOWN, "y": BOTH}, {**dict.fromkeys(norms, MIDDLE), "z": REDUCED}
    )
    assert [found[f"paths.{i}.conv"][0] for i in (0, 1)] == paths
    assert [found[f"paths.{i}.bn"][0] for i in (0, 1)] == norms


def without(table, name):
    return {key: value for key, value in table.items() if key != name}


@pytest.mark.parametrize(
    ("kernels", "norms"),
    [
        *[(without(KERNELS, name), NORMS) for name in KERNELS],
        *[(KERNELS, without(NORMS, name)) for name in NORMS],
        ({**KERNELS, "conv_2": PATH}, NORMS),
        ({**KERNELS, "down_again": DOWN}, NORMS),
        ({**KERNELS, "up_again": BOTH}, NORMS),
        ({**KERNELS, "to_0": EACH}, NORMS),
        ({**KERNELS, "to_0": EACH, "to_1": EACH}, NORMS),
        ({**without(KERNELS, "up"), "to_0": EACH}, NORMS),
        (KERNELS, {**NORMS, "batchnorm_1": MIDDLE}),
        (KERNELS, {**NORMS, "again": REDUCED}),
        ({**KERNELS, "conv_1": (5, 5, 4, MIDDLE)}, NORMS),
        ({**KERNELS, "conv_0": (3, 3, MIDDLE, MIDDLE), "conv_1": (3, 3, MIDDLE, MIDDLE)}, NORMS),
        ({}, {}),
    ],
)
def test_what_is_missing_or_ambiguous_is_refused_by_name(kernels, norms):
    with pytest.raises(UserError) as caught:
        match(kernels, norms)
    message = str(caught.value)
    assert message.startswith("file.pkl: block_group_0/block_0/: no selective kernels")
    for name, shape in kernels.items():
        assert f"{name} {shape}" in message
    for name in norms:
        assert name in message


def test_names_with_very_many_digits_are_compared():
    names = ["conv_" + "9" * 10_000, "conv_" + "1" * 10_000]
    found = match({**dict.fromkeys(names, PATH), "x": DOWN, "y": BOTH})
    assert found["paths.0.conv"] == (names[1],)


def test_names_stay_on_their_line_and_are_not_too_many():
    evil = {f"evil\n\x1b[31mname_{i}": PATH for i in range(50)}
    with pytest.raises(UserError) as caught:
        match(evil)
    message = str(caught.value)
    assert message.isprintable()
    assert r"evil\n\x1b[31mname_19 (3, 3, 4, 128) and 33 more" in message
    assert "name_20" not in message
