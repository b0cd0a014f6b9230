"""The label of an image without a label: one constant, one file."""

from typing import Final

UNLABELLED: Final = -1
