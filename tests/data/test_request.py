from semppl.data.request import Request


def test_labels_are_withheld_only_when_asked_for():
    assert not Request(source="x").simulates
    assert Request(source="x", labels_per_class=1).simulates
    assert Request(source="x", label_fraction=0.1).simulates
