import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_imports_point_downwards():
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def python(code):
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_the_package_changes_nothing():
    python(
        "import torch; before = torch.get_rng_state(); import semppl.train.pretrain, semppl.demo;"
        "assert torch.equal(before, torch.get_rng_state()); assert not torch.cuda.is_initialized()"
    )


def test_the_command_line_answers_without_torch():
    python("import sys, semppl, semppl.cli; assert 'torch' not in sys.modules")
