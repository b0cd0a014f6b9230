"""Words on the page: names that anybody may have chosen, and numbers for people."""

import html
import math
import re
from typing import Final

# control characters, those that turn the direction of what follows, and halves of characters
_ODD: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def plain(text: str) -> str:
    """Valid text in which nothing is invisible: bytes of a file name that are no UTF-8 show as \\xff."""
    return _ODD.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # how Python keeps a byte that is no UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def for_plotly(text: str, most: int = 28) -> str:
    """Plotly reads a little HTML in its labels, and places for values (`%{x}`): escaped, a name shows."""
    text = plain(text)
    short = text if len(text) <= most else f"{text[: most - 1]}…"
    return html.escape(short, quote=False).replace("%{", "%&#123;")


def percent(share: float | None, digits: int = 1) -> str:
    """A share of 1 in per cent; a dash for what is not known."""
    return "–" if share is None or not math.isfinite(share) else f"{100 * share:.{digits}f} %"


def share(text: str) -> str:
    """A share as a table of ours writes it; anything else stays as it is."""
    try:
        return percent(float(text), 0)
    except ValueError:
        return text


def number(value: float | None) -> str:
    """Four digits that mean something."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def duration(seconds: float) -> str:
    """The two largest units."""
    left = max(round(seconds), 0)
    words: list[str] = []
    for size, unit in _UNITS:
        if left >= size or (unit == "s" and not words):
            words.append(f"{left // size} {unit}")
            left %= size
    return " ".join(words[:2])


def bytes_of(size: int) -> str:
    """In MB, as disks count."""
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size / 1e3:,.1f} kB"
