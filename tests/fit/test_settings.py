import sys
from subprocess import run

from semppl.fit.settings import FitSettings


def test_everything_is_included_by_default():
    settings = FitSettings()
    assert settings.baselines
    assert settings.finetune
    assert settings.minutes == 30


def test_flags_need_no_torch():
    code = "import sys, semppl.fit.settings; sys.exit('torch' in sys.modules)"
    assert run([sys.executable, "-c", code], check=False).returncode == 0
