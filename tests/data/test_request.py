from semppl.data.request import Request


def test_labels_are_withheld_only_when_asked_for():
    assert not Request(source="x").simulates
    assert Request(source="x", labels_per_class=1).simulates
    assert Request(source="x", label_fraction=0.1).simulates


def test_somebody_is_told_how_far_it_is_or_nobody():
    heard = []
    Request(source="x", advance=lambda *what: heard.append(what)).told("reading")(3, 9)
    assert heard == [("reading", 3, 9)]
    Request(source="x").told("reading")(3, 9)


def test_a_request_that_says_nothing_of_masks_has_those_of_the_file_alone():
    assert Request(source="x").masks == "own"
