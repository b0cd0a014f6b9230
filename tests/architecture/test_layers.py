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


LACKING = """
import sys
from semppl.cli import main

verbs = "pretrain fit predict evaluate ablate report masks export import".split()
for words in (*([verb] for verb in verbs), ["demo", "--seeds", "0"]):
    try:
        main(words)
    except SystemExit as left:
        assert left.code == 2, words
    assert "torch" not in sys.modules, words
"""


def test_what_lacks_its_first_word_is_refused_without_torch():
    python(LACKING)
