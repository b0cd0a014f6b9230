import sys
from dataclasses import asdict
from subprocess import run

import pytest
import yaml

from semppl.core.errors import UserError
from semppl.fit.settings import FitSettings, stored_settings


def test_everything_is_included_by_default():
    settings = FitSettings()
    assert settings.baselines
    assert settings.finetune
    assert settings.consistency
    assert settings.minutes == 30


def test_flags_need_no_torch():
    code = "import sys, semppl.fit.settings; sys.exit('torch' in sys.modules)"
    assert run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_run_that_goes_on_knows_what_it_includes(tmp_path):
    with pytest.raises(UserError, match="not started by `semppl fit`"):
        stored_settings(tmp_path)
    settings = FitSettings(minutes=7.0, baselines=False)
    (tmp_path / "fit.yaml").write_text(yaml.safe_dump(asdict(settings)))
    assert stored_settings(tmp_path) == settings


def test_settings_of_a_run_from_before_consistency_are_read(tmp_path):
    (tmp_path / "fit.yaml").write_text("baselines: false\nfinetune: true\nminutes: 7.0\n")
    assert stored_settings(tmp_path) == FitSettings(minutes=7.0, baselines=False, consistency=True)
