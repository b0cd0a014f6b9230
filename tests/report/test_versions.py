import pytest

from semppl.report.versions import versions


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"python": "3.12", "packages": {"torch": "2.11", "timm": None}}, "Python 3.12, torch 2.11"),
        ({"packages": {"torch": "2.11"}, "device": "cpu"}, "torch 2.11"),
        ({"packages": ["torch"], "python": "3.12"}, "Python 3.12"),
        ({}, ""),
    ],
)
def test_what_is_known_is_said(environment, said):
    assert versions(environment) == said
