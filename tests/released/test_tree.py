import numpy as np
import pytest

from semppl.core.errors import UserError
from semppl.released.tree import read_tree


def checkpoint(replicas=None, **changes):
    """A convolution, a norm with its averages, a linear layer."""
    lead = () if replicas is None else (replicas,)

    def array(*shape, start=0.0, dtype=np.float32):
        first = np.arange(np.prod(shape), dtype=dtype).reshape(shape) + dtype(start)
        return np.stack([first + i * 100 for i in range(replicas)]) if lead else first

    average = {
        "average": array(1, 1, 1, 4, start=1),
        "hidden": array(1, 1, 1, 4),
        "counter": array(dtype=np.int32),
    }
    params = {
        "net/~/conv": {"w": array(3, 3, 2, 4)},
        "net/~/norm": {"scale": array(1, 1, 1, 4), "offset": array(1, 1, 1, 4)},
        "head/linear": {"w": array(4, 2), "b": array(2)},
        "head/batch_norm": {"scale": array(1, 2), "offset": array(1, 2)},
    }
    state = {"net/~/norm/~/mean_ema": average}
    return {
        "experiment_state": {"online_params": params, "online_state": state},
        "step": 12,
        "rng": None,
        **changes,
    }


def put(content, part, module, leaf, array):
    content["experiment_state"][part][module][leaf] = array
    return content


def refused(content, *words):
    with pytest.raises(UserError) as caught:
        read_tree(content, "file.pkl")
    message = str(caught.value)
    assert message.startswith("file.pkl: ")
    assert message.isprintable()
    for word in words:
        assert word in message


@pytest.mark.parametrize("replicas", [None, 1, 2, 5])
def test_the_first_replica_is_taken(replicas):
    tree, expected = read_tree(checkpoint(replicas), "file.pkl"), checkpoint()["experiment_state"]
    assert tree.step == 12
    for found, wanted in ((tree.params, expected["online_params"]), (tree.state, expected["online_state"])):
        assert found.keys() == wanted.keys()
        for module, leaves in wanted.items():
            assert found[module].keys() == leaves.keys()
            for leaf, array in leaves.items():
                assert found[module][leaf].dtype == np.float32
                assert found[module][leaf].shape == array.shape
                assert np.array_equal(found[module][leaf], array)


def test_a_replica_of_the_size_of_a_kernel_is_no_riddle():
    assert read_tree(checkpoint(3), "file.pkl").params["net/~/conv"]["w"].shape == (3, 3, 2, 4)


@pytest.mark.parametrize(
    ("module", "leaf", "shape"),
    [
        ("net/~/conv", "w", (3, 3, 2, 4)),
        ("net/~/norm", "scale", (1, 1, 1, 4)),
        ("head/linear", "w", (4, 2)),
        ("head/linear", "b", (2,)),
        ("head/batch_norm", "offset", (1, 2)),
    ],
)
def test_replicas_here_but_not_there_are_refused_by_name(module, leaf, shape):
    with_one = put(checkpoint(1), "online_params", module, leaf, np.zeros(shape, np.float32))
    refused(with_one, "not of the same number of replicas", f"{module} {leaf} {shape}")
    without = put(checkpoint(), "online_params", module, leaf, np.zeros((1, *shape), np.float32))
    refused(without, "not of the same number of replicas", f"{module} {leaf} {(1, *shape)}")
    other = put(checkpoint(2), "online_params", module, leaf, np.zeros((3, *shape), np.float32))
    refused(other, "not of the same number of replicas", f"{module} {leaf} {(3, *shape)}")


@pytest.mark.parametrize("shape", [(), (4,), (1, 1, 1, 1, 3, 4), (0, 3, 3, 2, 4)])
def test_ranks_that_no_layer_has(shape):
    refused(
        put(checkpoint(), "online_params", "net/~/conv", "w", np.zeros(shape)), "net/~/conv w", str(shape)
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_values_that_are_not_finite_are_refused_by_name(value):
    bad = np.ones((1, 1, 1, 4))
    bad[..., 2] = value
    refused(
        put(checkpoint(), "online_state", "net/~/norm/~/mean_ema", "average", bad),
        "net/~/norm/~/mean_ema average has values that are not finite",
    )


def test_what_other_replicas_hold_does_not_matter():
    content = checkpoint(2)
    content["experiment_state"]["online_params"]["net/~/conv"]["w"][1] = np.nan
    assert np.isfinite(read_tree(content, "file.pkl").params["net/~/conv"]["w"]).all()


@pytest.mark.parametrize("array", [np.zeros((3, 3, 2, 4), bool), np.zeros((3, 3, 0, 4))])
def test_arrays_without_numbers(array):
    refused(put(checkpoint(), "online_params", "net/~/conv", "w", array), "net/~/conv w is of")


def test_an_unknown_leaf_goes_with_the_others():
    content = put(checkpoint(2), "online_params", "net/~/conv", "gain", np.array([[3.0, 4.0], [5.0, 6.0]]))
    assert read_tree(content, "file.pkl").params["net/~/conv"]["gain"].tolist() == [3, 4]
    refused(put(checkpoint(2), "online_params", "net/~/conv", "gain", np.array(3.0)), "net/~/conv gain")


def test_missing_keys_are_named():
    refused({"params": 1}, "no experiment_state", "params")
    refused({}, "no experiment_state", "nothing")
    refused({"experiment_state": {"backbone_params": {}}, "step": 1}, "no online_params", "backbone_params")
    content = checkpoint()
    del content["experiment_state"]["online_state"]
    refused(content, "no online_state", "online_params")
    content = checkpoint()
    del content["step"]
    refused(content, "no step", "experiment_state, rng")


def test_what_is_no_mapping():
    refused([1], "experiment_state", "list")
    refused({"experiment_state": (1, 2), "step": 3}, "online_params", "tuple")
    refused(
        {"experiment_state": {"online_params": 5, "online_state": {}}, "step": 3}, "online_params is a int"
    )
    content = checkpoint()
    content["experiment_state"]["online_params"]["net/~/conv"] = np.zeros(3)
    refused(content, "net/~/conv is a ndarray, not a mapping")
    refused(put(checkpoint(), "online_params", "net/~/conv", "w", [1.0]), "net/~/conv w is a list")
    refused(put(checkpoint(), "online_params", "net/~/conv", 5, np.zeros(1)), "net/~/conv int")
    refused(put(checkpoint(), "online_params", "net/~/conv", "w\nw", "text"), r"net/~/conv w\nw is a str")


EVIL = "evil\n\x1b[31mname"


@pytest.mark.parametrize(
    ("leaf", "array"),
    [
        ("w", np.zeros((1, 3, 3, 2, 4))),  # of another number of replicas
        ("w", np.zeros(4)),  # of a rank that no layer has
        ("w", np.full((2, 2), np.nan)),
        ("w", np.zeros((2, 2), bool)),
        (EVIL, np.full(2, np.nan)),
        (EVIL, "text"),
    ],
)
def test_names_stay_on_their_line(leaf, array):
    content = checkpoint()
    content["experiment_state"]["online_params"][EVIL] = {leaf: array}
    refused(content, " ".join(r"evil\n\x1b[31mname" if name == EVIL else name for name in (EVIL, leaf)))


def test_names_of_what_is_no_mapping_stay_on_their_line():
    content = checkpoint()
    content["experiment_state"]["online_params"][EVIL] = 5
    refused(content, r"online_params evil\n\x1b[31mname is a int")
    refused({EVIL: 1}, r"there is evil\n\x1b[31mname")


def test_an_array_under_many_names_is_converted_once():
    content = checkpoint()
    shared = np.ones((4, 4), np.int8)
    content["experiment_state"]["online_params"] |= {f"linear_{i}": {"w": shared} for i in range(100)}
    params = read_tree(content, "file.pkl").params
    assert len({id(params[f"linear_{i}"]["w"]) for i in range(100)}) == 1


def test_a_mapping_of_many_arrays_under_many_names_is_refused():
    many = dict.fromkeys(map(str, range(1000)), np.ones(1, np.float32))
    content = checkpoint()
    content["experiment_state"]["online_params"] |= dict.fromkeys(map(str, range(1000)), many)
    refused(content, "online_params has more than 20,000 arrays")


@pytest.mark.parametrize("step", [12, np.int64(12), np.array(12), np.array([12, 12, 12], np.uint32)])
def test_steps(step):
    assert read_tree(checkpoint(step=step), "file.pkl").step == 12


@pytest.mark.parametrize("step", [-1, 2**63, True, 1.5, np.float32(3), np.zeros(0, int), None, "12"])
def test_what_is_no_step(step):
    refused(checkpoint(step=step), "step is no number of updates")


def test_a_step_with_more_digits_than_can_be_written():
    refused(checkpoint(step=10**5000), "step is no number of updates")
