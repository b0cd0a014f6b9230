"""Numbers that a parser takes and nothing can use."""

import math
from dataclasses import fields, is_dataclass
from typing import Final

from semppl.core.errors import UserError

_SEEDS: Final = 2**32
"""numpy and scikit-learn know no others."""


def check_numbers(flags: object, prefix: str = "--") -> None:
    """Refuse them by the names of their flags, before hours of work come to them."""
    for field in fields(flags) if is_dataclass(flags) else ():
        value, flag = getattr(flags, field.name), prefix + field.name.replace("_", "-")
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, float) and not math.isfinite(number):
                raise UserError(f"{flag} is {number}: it must be a finite number")
        if field.name in ("seed", "split_seed") and value is not None and not 0 <= value < _SEEDS:
            raise UserError(f"{flag} is {value}: it must be at least 0 and below {_SEEDS}")
        check_numbers(value, prefix if field.name == "config" else f"{flag}.")
