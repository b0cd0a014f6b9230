import pytest

from semppl.report.text import bytes_of, duration, for_plotly, number, percent, plain, share


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("café.jpg", "café.jpg"),
        ("caf\udce9.jpg", "caf\\xe9.jpg"),
        ("a\nb\tc", "a\\x0ab\\x09c"),
        ("gpj.\u202eexe", "gpj.\\u202eexe"),
        ("half \ud83d", "half \\ud83d"),
        ("<b>&amp;", "<b>&amp;"),
    ],
)
def test_names_are_valid_text_in_which_nothing_hides(name, shown):
    assert plain(name) == shown
    plain(name).encode()


def test_plotly_shows_names_as_they_are():
    assert for_plotly('<a href="x">&</a>') == '&lt;a href="x"&gt;&amp;&lt;/a&gt;'
    assert for_plotly("50%{x}") == "50%&#123;x}", "no place for a value"
    assert for_plotly("x" * 40, 10) == "x" * 9 + "…"
    assert for_plotly("<" * 40, 3) == "&lt;&lt;…", "cut before it is escaped"


def test_numbers_for_people():
    assert [percent(0.1234), percent(1, 0), percent(None), percent(float("nan"))] == [
        "12.3 %",
        "100 %",
        "–",
        "–",
    ]
    assert [number(0.123456), number(12345), number(None)] == ["0.1235", "12,345", "–"]
    assert [share("0.263"), share("odd")] == ["26 %", "odd"]
    assert [duration(0), duration(59.6), duration(3725), duration(90_000)] == [
        "0 s",
        "1 min",
        "1 h 2 min",
        "1 d 1 h",
    ]
    assert [bytes_of(1200), bytes_of(2_500_000)] == ["1.2 kB", "2.5 MB"]
