"""Data sets besides the run's own: those that were asked for must be there; by default, those that are."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from semppl.core.errors import UserError
from semppl.data.robustness import FAMILIES, Found, robustness_sets
from semppl.data.torchvision import default_root
from semppl.data.transfer import TRANSFER_NAMES, Transfer, load_transfer
from semppl.protocols.settings import EvaluateFlags, wanted_protocols

T = TypeVar("T")


def find_families(flags: EvaluateFlags) -> list[Found]:
    """For robustness; beside transfer, only names of families count."""
    root = flags.root or default_root()
    wanted = [name for name in flags.sets if name in FAMILIES or "transfer" not in wanted_protocols(flags)]
    return _there(wanted, FAMILIES, lambda name, _: robustness_sets(name, root))


def find_transfers(flags: EvaluateFlags) -> list[Transfer]:
    """For transfer; what is asked for is downloaded where torchvision can. Beside robustness, names of its
    families do not count.
    """
    both = "robustness" in wanted_protocols(flags)
    wanted = [name for name in flags.sets if not (both and name in FAMILIES)]

    def load(name: str, asked: bool) -> Transfer:
        return load_transfer(name, flags.root, seed=flags.seed, download=asked)

    return _there(wanted, TRANSFER_NAMES, load)


def _there(wanted: Sequence[str], everything: Sequence[str], load: Callable[[str, bool], T]) -> list[T]:
    """`load` hears whether a set was asked for by its name."""
    if wanted:
        return [load(name, True) for name in wanted]
    found, reasons = list[T](), list[str]()
    for name in everything:
        try:
            found.append(load(name, False))
        except UserError as error:
            reasons.append(str(error))
    if not found:
        raise UserError(f"{reasons[0]}; the other sets are not there either: ask for one with --sets NAME")
    return found
