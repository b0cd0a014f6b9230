"""SemPPL: representations from many unlabelled images and few labels."""

from typing import TYPE_CHECKING, Any

from semppl.core.labels import UNLABELLED

if TYPE_CHECKING:
    from semppl.deploy.load import load

__all__ = ["UNLABELLED", "__version__", "load"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`load` brings torch along, so it is fetched when it is wanted: the command line stays quick."""
    if name == "load":
        from semppl.deploy.load import load  # noqa: PLC0415

        return load
    raise AttributeError(f"module 'semppl' has no attribute {name!r}")
