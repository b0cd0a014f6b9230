import pytest

from semppl.doctor.words import DAY, YEAR, duration, size, three


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0"), (0.04567, "0.0457"), (9.999, "10"), (99.94, "99.9"), (99.96, "100"), (12345.6, "12,346")],
)
def test_three_digits_without_an_exponent(value, words):
    assert three(value) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.6, "1 kB"),
        (140_267_776, "140 MB"),
        (2.5e12, "2.5 TB"),
        (9e15, "9,000 TB"),
    ],
)
def test_bytes(count, words):
    assert size(count) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0123, "12.3 ms"),
        (1.999, "1,999 ms"),
        (90, "90 s"),
        (120, "2 min"),
        (7199, "120 min"),
        (7200, "2 h"),
        (2 * DAY, "2 days"),
        (2 * YEAR, "2 years"),
        (5000 * YEAR, "5,000 years"),
    ],
)
def test_durations(seconds, words):
    assert duration(seconds) == words
