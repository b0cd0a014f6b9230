from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "semppl"
PLAIN = {"__init__.py", "__main__.py"}
# words without behaviour
WITHOUT_TEST = {"core/labels.py", "core/batch.py", "core/corruptions.py"}


def modules():
    return [path for path in SOURCE.rglob("*.py") if path.name not in PLAIN]


def test_every_module_has_its_test_file():
    missing = []
    for path in modules():
        place = path.relative_to(SOURCE)
        if not (ROOT / "tests" / place.parent / f"test_{place.name}").is_file():
            missing.append(place.as_posix())
    assert set(missing) == WITHOUT_TEST


def test_no_file_is_a_junk_drawer():
    for path in modules():
        assert path.stem not in {"utils", "helpers", "misc", "common"}
        assert len(path.read_text().splitlines()) <= 310, path


def test_the_step_is_one_page():
    lines = (SOURCE / "train" / "step.py").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("def train_step_"))
    end = next(i for i in range(start + 1, len(lines)) if lines[i].startswith("def "))
    assert end - start <= 60
