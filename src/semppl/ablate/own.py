"""The table of a user's own rows: any values of the configuration, `name=value` joined by commas. No torch
here.
"""

import contextlib
import io
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from hashlib import sha256
from typing import Final

import tyro

from semppl.ablate.table import Change, Row, Table
from semppl.config import Config
from semppl.core.errors import UserError
from semppl.core.numbers import check_numbers
from semppl.differing import FREE, flat
from semppl.report.table.flags import as_word

OWN: Final = "own"
AS_CONFIGURED: Final = "as configured"
# what a folder's name may not hold everywhere
_ODD: Final = re.compile(r"[^\w.+-]+")
_DIGITS: Final = 6
_SEEDS: Final = frozenset({"seed", "data.split_seed"})


def own_table(base: Config, rows: Sequence[str]) -> Table:
    """Each row against the resolved configuration as it is."""
    made = [Row(AS_CONFIGURED), *(_row(words, base) for words in dict.fromkeys(rows))]
    return Table(OWN, "Own rows", made, "")


def require_different(rows: Sequence[tuple[str, str]]) -> None:
    """Refuse rows that compute what another one does: (row, what it computes), as they come."""
    seen: dict[str, str] = {}
    for row, computed in rows:
        if (other := seen.setdefault(computed, row)) != row:
            same = "changes nothing" if other == AS_CONFIGURED else f"is the same as {other}"
            raise UserError(f"--rows {row} {same}: leave it out, the table has such a row")


@contextlib.contextmanager
def said_with(words: str) -> Iterator[None]:
    """What is wrong with a row's configuration is said with the row."""
    try:
        yield
    except UserError as error:
        raise UserError(f"--rows {words}: {error}") from error


def _row(words: str, base: Config) -> Row:
    return Row(words, tuple(_change(pair, words, base) for pair in words.split(",")), {}, AS_CONFIGURED)


def _change(pair: str, words: str, base: Config) -> Change:
    """A value as its flag takes it."""
    name, equals, value = (part.strip() for part in pair.partition("="))
    dotted, known = name.removeprefix("--").replace("-", "_"), flat(asdict(base))
    if not equals or not name or not value:
        raise UserError(
            f"--rows {words}: {pair!r} is not NAME=VALUE, such as method.k=5 (several are joined by commas)"
        )
    if dotted not in known:
        raise UserError(f"--rows {words}: there is no value {name} in config.yaml{_perhaps(dotted, known)}")
    if dotted in FREE | _SEEDS:
        why = "seeds are those of --seeds" if dotted in _SEEDS else "it does not change what is computed"
        raise UserError(f"--rows {words}: leave {name} out, {why}")
    if any(word.startswith("--") for word in value.split()):
        raise UserError(f"--rows {words}: {value!r} is more than a value: changes are joined by commas")
    changed = _with(base, dotted, value, words)
    with said_with(words):
        check_numbers(changed)
    slug = f"{dotted.removeprefix('method.')}-{_plain(flat(asdict(changed))[dotted])}"
    return Change(slug, lambda config: _with(config, dotted, value, words))


def _perhaps(dotted: str, known: Collection[str]) -> str:
    """The names that end alike, or nearly so."""
    last = dotted.rpartition(".")[2].lower()
    ends = {name.rpartition(".")[2]: name for name in known}
    near = [ends[end] for end in get_close_matches(last, ends, 1)]
    return "".join(f", perhaps {name.replace('_', '-')}" for name in near)


def _plain(value: object) -> str:
    """A value as a part of a folder's name, another for each value."""
    said = as_word(value)
    plain = _ODD.sub("_", said)
    return plain if plain == said else f"{plain}-{sha256(said.encode()).hexdigest()[:_DIGITS]}"


def _with(config: Config, dotted: str, value: str, words: str) -> Config:
    """By the parser of all flags, so that a value is what it is there."""
    flag = f"--{dotted.replace('_', '-')}"
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            spelt_out = (tyro.conf.FlagConversionOff,)  # --flag True
            return tyro.cli(Config, default=config, args=[flag, *value.split()], config=spelt_out)
    except SystemExit:
        raise UserError(
            f"--rows {words}: {flag} cannot be {value} (semppl ablate --help says what it can be)"
        ) from None
