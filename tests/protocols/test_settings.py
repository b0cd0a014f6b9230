import pytest

from semppl.core.errors import UserError
from semppl.protocols.settings import PROTOCOLS, EvaluateFlags, check_flags, from_scratch, wanted_protocols


def test_protocols_come_once_and_in_order_whatever_separates_them():
    assert wanted_protocols(EvaluateFlags()) == ("knn", "linear")
    given = EvaluateFlags(protocol=("finetune, knn", "knn", "transfer"), corrupt=True)
    assert wanted_protocols(given) == ("knn", "finetune", "corruptions", "transfer")
    assert wanted_protocols(EvaluateFlags(protocol=PROTOCOLS)) == PROTOCOLS


def test_the_supervised_baseline_alone_asks_nothing_of_the_weights():
    assert from_scratch(EvaluateFlags(protocol=("supervised",)))
    assert not from_scratch(EvaluateFlags(protocol=("supervised",), corrupt=True))
    assert not from_scratch(EvaluateFlags(protocol=("supervised,knn",)))


@pytest.mark.parametrize("protocol", [("knm",), ()])
def test_unknown_protocols_are_refused(protocol):
    with pytest.raises(UserError, match=r"knn, linear, linear-sgd"):
        wanted_protocols(EvaluateFlags(protocol=protocol))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"k": 0}, "--k is 0: it must be at least 1"),
        ({"epochs": 0}, "--epochs is 0"),
        ({"seeds": 0}, "--seeds is 0"),
        ({"most": 0}, "--most is 0"),
        ({"workers": -1}, "--workers is -1: it must be at least 0"),
        ({"temperature": 0}, "--temperature is 0: it must be above 0"),
        ({"validation": 1}, "--validation is 1"),
        ({"confident": 1.5}, "--confident is 1.5: it is a probability"),
        ({"sure": -0.1}, "--sure is -0.1: it is a probability"),
        ({"consistency": True}, "--consistency is a way to fine-tune: add --protocol finetune"),
        ({"consistency": True, "confident": 0.9, "protocol": ("finetune",)}, "choose one"),
        ({"name": "a/b"}, "--name a/b"),
    ],
)
def test_values_that_cannot_work_are_refused(flags, words):
    check_flags(EvaluateFlags())
    check_flags(EvaluateFlags(consistency=True, protocol=("knn", "finetune")))
    check_flags(EvaluateFlags(consistency=True, protocol=("supervised",)))
    with pytest.raises(UserError, match=words):
        check_flags(EvaluateFlags(**flags))
