import pytest

from semppl.core.errors import UserError, choose


def test_a_known_name_is_found():
    assert choose({"a": 1}, "a", "letter") == 1


def test_an_unknown_name_is_answered_with_the_alternatives():
    with pytest.raises(UserError, match=r"unknown letter 'c': choose from a, b"):
        choose({"b": 1, "a": 2}, "c", "letter")
