from dataclasses import asdict, replace

from semppl.config import Config
from semppl.differing import FREE, decisive, differences, digest_of, flat


def test_differences_are_named_with_their_group():
    one = Config()
    other = replace(one, seed=1, device="cuda:3", method=replace(one.method, k=5))
    assert differences(one, other) == ["seed", "method.k"]


def test_all_that_is_free_exists():
    assert set(flat(asdict(Config()))) >= FREE
    assert not FREE & decisive(Config()).keys()


def test_the_digest_is_that_of_what_is_computed_whatever_the_seeds():
    one = Config()
    elsewhere = replace(one, seed=3, device="cpu", data=replace(one.data, split_seed=4))
    assert digest_of(one) == digest_of(elsewhere)
    assert digest_of(one) != digest_of(replace(one, method=replace(one.method, target_decay=0.99999996)))


def test_flat_names():
    assert flat({"a": 1, "b": {"c": 2, "d": {"e": None}}}) == {"a": 1, "b.c": 2, "b.d.e": None}


def test_masks_may_lie_elsewhere_but_not_come_or_go():
    none, own, here, there = (
        replace(Config(), data=replace(Config().data, masks=masks)) for masks in ("none", "own", "/a", "/b/c")
    )
    assert differences(here, there) == []
    for one, other in ((none, here), (here, none), (own, none), (own, here)):
        assert differences(one, other) == ["data.masks"]


def test_a_run_that_does_not_say_whether_labels_are_balanced_did_not_balance_them():
    open_, off, on = (
        replace(Config(), data=replace(Config().data, balance_labels=balance))
        for balance in (None, False, True)
    )
    assert differences(open_, off) == []
    assert differences(open_, on) == differences(off, on) == ["data.balance_labels"]
