import io
import json
import subprocess
import sys

import pytest
from rich.console import Console
from tests.report.conftest import bare_run, measured_run

from semppl.core.errors import RunError, UserError
from semppl.core.rundir import RunDirectory
from semppl.report import run as module
from semppl.report.run import run_report, write_report
from semppl.report.settings import ReportFlags

FLAGS = ReportFlags(umap="off")


def said(paths, flags=FLAGS):
    console = Console(file=io.StringIO(), width=500)
    return run_report(paths, flags, console), console.file.getvalue()


def test_a_page_beside_the_run(run_path):
    out, words = said([run_path])
    assert out == run_path / "report.html"
    assert words.startswith(f"report: {out} (")
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    again, _ = said([run_path])
    assert again == out, "a page of ours is replaced"


def test_no_torch_in_a_whole_report(run_path):
    code = (
        "import sys; from pathlib import Path; from rich.console import Console\n"
        "from semppl.report.run import run_report; from semppl.report.settings import ReportFlags\n"
        "run, quiet = Path(sys.argv[1]), Console(quiet=True)\n"
        "run_report([run], ReportFlags(umap='off'), quiet)\n"
        "run_report([run, Path(sys.argv[2])], ReportFlags(out=run / 'two.html'), quiet)\n"
        "assert 'torch' not in sys.modules"
    )
    other = bare_run(run_path.with_name("other"))
    subprocess.run([sys.executable, "-c", code, run_path, other], check=True)
    assert (run_path / "two.html").is_file()


def test_what_is_missing_is_said_with_its_command(tmp_path):
    path = bare_run(tmp_path / "run")
    _, words = said([path])
    assert f"missing: no evaluation yet: semppl evaluate {path}\n" in words
    assert "missing: no exhibit" in words
    other = bare_run(tmp_path / "other")
    _, words = said([path, other], ReportFlags(out=tmp_path / "x.html"))
    assert "no exhibit" not in words, "a page of several runs shows no images"


def test_a_run_that_is_given_twice_counts_once(run_path):
    out, words = said([run_path, run_path / ".." / run_path.name])
    assert out == run_path / "report.html"
    assert "given more than once" in words


def test_a_run_that_is_not_there_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for name in ("nothing", "file"):
        with pytest.raises(UserError, match="holds no run"):
            said([tmp_path / name])


def test_damaged_pictures_are_gaps(run_path):
    (run_path / "exhibit" / "tiles-0.webp").write_bytes(b"RIFF")
    (run_path / "exhibit" / "advice-0.webp").unlink()
    out, words = said([run_path])
    assert "exhibit/tiles-0.webp cannot be read" in words
    assert "exhibit/advice-0.webp cannot be read (there is none)" in words
    assert "some images have no thumbnail" in out.read_text()


def test_umap_needs_features(run_path, monkeypatch):
    monkeypatch.setattr(module, "wanted", lambda choice: True)
    monkeypatch.setattr(module, "umap_map", lambda features: features[:, :2])
    out, words = said([run_path])
    assert "drawing the map with UMAP" in words
    assert '"UMAP":' in out.read_text()
    (run_path / "exhibit" / "features.npz").write_bytes(b"PK")
    out, words = said([run_path])
    assert "no map by UMAP" in words
    assert '"UMAP":' not in out.read_text()


def test_bad_requests(tmp_path, run_path):
    with pytest.raises(UserError, match="say which run"):
        said([])
    with pytest.raises(UserError, match="holds no run"):
        said([tmp_path])
    (run_path / "report.html").write_text("mine")
    with pytest.raises(UserError, match="no page of ours"):
        said([run_path])
    assert (run_path / "report.html").read_text() == "mine"


def test_a_full_disk_is_one_line(run_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_atomically", full)
    with pytest.raises(RunError, match=r"cannot be written \(No space left on device\)"):
        said([run_path])
    assert write_report(RunDirectory(run_path)) is None


def test_the_page_at_the_end_of_another_verb(tmp_path, monkeypatch):
    path = measured_run(tmp_path / "run")
    assert write_report(RunDirectory(path)) == path / "report.html"
    (path / "report.html").write_text("mine")
    assert write_report(RunDirectory(path)) is None
    assert (path / "report.html").read_text() == "mine"
    assert write_report(RunDirectory(tmp_path / "none")) is None


def test_a_name_that_is_no_utf8_is_still_a_page(tmp_path):
    path = measured_run(tmp_path / "r\udcff")
    (path / "evaluations" / "x\udce9.json").write_text(json.dumps({"protocol": "\udce9", "numbers": []}))
    out, words = said([path])
    assert "r\\xff" in out.read_text(encoding="utf-8")
    words.encode()
