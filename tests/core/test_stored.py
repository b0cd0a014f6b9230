import pytest

from semppl.core.errors import UserError
from semppl.core.stored import stored_mapping


def test_what_is_there_is_read():
    assert stored_mapping("a: 1\nb: {c: [2]}\n", "x.yaml") == {"a": 1, "b": {"c": [2]}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: [", r"run/x\.yaml is no valid YAML \(line 2\): restore it"),
        ("a\tb: \x00", r"run/x\.yaml is no valid YAML: restore it"),
        ("", r"run/x\.yaml is not a YAML mapping: restore it"),
        ("- 1", r"run/x\.yaml is not a YAML mapping: restore it"),
    ],
)
def test_what_was_damaged_is_named(text, said):
    with pytest.raises(UserError, match=f"^{said}, or start a new run$"):
        stored_mapping(text, "run/x.yaml")
