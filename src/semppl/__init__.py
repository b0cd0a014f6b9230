"""SemPPL: representations from many unlabelled images and few labels."""

from semppl.core.labels import UNLABELLED

__all__ = ["UNLABELLED", "__version__"]
__version__ = "0.1.0"
