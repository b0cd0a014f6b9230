from semppl.report.classes import (
    ClassLine,
    Confused,
    class_lines,
    drawn_classes,
    matrix,
    most_confused,
    summed,
)

M = ((8, 2, 0), (1, 3, 0), (0, 0, 0))


def test_classes_by_hand():
    assert class_lines(M, ("cat", "dog"), {"cat": 5}) == [
        ClassLine("cat", 5, 10, 0.8, 9),
        ClassLine("dog", 0, 4, 0.75, 5),
        ClassLine("2", 0, 0, None, 0),
    ]


def test_confusions_by_number():
    assert most_confused(M) == [Confused(0, 1, 2, 0.2), Confused(1, 0, 1, 0.25)]
    assert most_confused(M, most=1) == [Confused(0, 1, 2, 0.2)]
    assert most_confused(((3, 0), (0, 2))) == []


def test_seeds_are_added():
    one = {"confusion": [[1, 0], [2, 3]]}
    assert summed(one) == ((1, 0), (2, 3))
    assert summed([one, one]) == ((2, 0), (4, 6))
    assert summed([one, {"confusion": [[1]]}]) is None
    assert summed(None) is None
    assert summed([{"top1": 1}, 3]) is None


def test_only_square_counts_are_a_matrix():
    assert matrix([[1, 2], [3, 4]]) == ((1, 2), (3, 4))
    for odd in ([], [[1, 2]], [[1], [2]], [[-1]], [[0.5]], "ab", None, [1]):
        assert matrix(odd) is None


def test_of_many_classes_the_confused_ones_are_drawn():
    many = [[10 * (i == j) for j in range(5)] for i in range(5)]
    many[1][3], many[4][0] = 7, 2
    assert drawn_classes(many, most=5) == [0, 1, 2, 3, 4]
    assert drawn_classes(many, most=2) == [1, 3]
    assert drawn_classes(many, most=4) == [0, 1, 3, 4]
