import subprocess
import sys

import pytest

from semppl.core.errors import UserError
from semppl.deploy.settings import FORMATS, ExportFlags, wanted_formats


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (("timm",), ("timm",)),
        (("onnx", "timm", "onnx"), ("timm", "onnx")),
        (("onnx,safetensors", "torchvision"), ("safetensors", "torchvision", "onnx")),
        (FORMATS, FORMATS),
    ],
)
def test_each_format_once_in_one_order(given, wanted):
    assert wanted_formats(ExportFlags(format=given)) == wanted


def test_what_is_no_format_is_said():
    with pytest.raises(
        UserError, match="unknown format 'tensorrt': there are safetensors, torchvision, timm"
    ):
        wanted_formats(ExportFlags(format=("timm", "tensorrt")))
    with pytest.raises(UserError, match="no format: choose from safetensors"):
        wanted_formats(ExportFlags(format=(",",)))


def test_flags_are_read_without_torch():
    code = "import sys, semppl.deploy.settings; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
