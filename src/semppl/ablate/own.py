"""The table of a user's own rows: any values of the configuration, `name=value` joined by commas. No torch
here.
"""

import contextlib
import io
import re
from collections.abc import Sequence
from dataclasses import asdict
from difflib import get_close_matches
from typing import Final

import tyro

from semppl.ablate.table import Change, Row, Table, applied
from semppl.config import Config
from semppl.core.errors import UserError
from semppl.differing import FREE, flat

AS_CONFIGURED: Final = "as configured"
# what a folder's name may hold everywhere
_PLAIN: Final = re.compile(r"[\w.+-]+")


def own_table(base: Config, rows: Sequence[str]) -> Table:
    """Each row against the resolved configuration as it is."""
    made = [Row(AS_CONFIGURED), *(_row(words, base) for words in dict.fromkeys(rows))]
    return Table("own", "Own rows", made, "")


def _row(words: str, base: Config) -> Row:
    changes = tuple(_change(pair, words, base) for pair in words.split(","))
    row = Row(words, changes, {}, AS_CONFIGURED)
    if applied(row, base)[1] == base:
        raise UserError(f"--rows {words} changes nothing: leave it out, the table has such a row")
    return row


def _change(pair: str, words: str, base: Config) -> Change:
    """A value as its flag takes it."""
    name, equals, value = (part.strip() for part in pair.partition("="))
    dotted, known = name.removeprefix("--").replace("-", "_"), flat(asdict(base))
    if not equals or not _PLAIN.fullmatch(value):
        raise UserError(
            f"--rows {words}: {pair!r} is not NAME=VALUE, such as method.k=5 (several are joined by commas)"
        )
    if dotted not in known:
        near = get_close_matches(dotted, known, 1, cutoff=0.0)[0]
        raise UserError(f"--rows {words}: there is no --{name}, perhaps {near.replace('_', '-')}")
    if dotted in FREE | {"seed"}:
        why = "seeds are those of --seeds" if dotted == "seed" else "it does not change what is computed"
        raise UserError(f"--rows {words}: leave {name} out, {why}")
    changed = flat(asdict(_with(base, dotted, value, words)))[dotted]
    said = f"{changed:g}" if isinstance(changed, float) else str(changed)
    slug = f"{dotted.removeprefix('method.')}-{_PLAIN.findall(said)[0]}"
    return Change(slug, lambda config: _with(config, dotted, value, words))


def _with(config: Config, dotted: str, value: str, words: str) -> Config:
    """By the parser of all flags, so that a value is what it is there."""
    flag = f"--{dotted.replace('_', '-')}"
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            spelt_out = (tyro.conf.FlagConversionOff,)  # --flag True
            return tyro.cli(Config, default=config, args=[flag, value], config=spelt_out)
    except SystemExit:
        raise UserError(
            f"--rows {words}: {flag} cannot be {value} (semppl ablate --help says what it can be)"
        ) from None
