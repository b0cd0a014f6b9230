import io
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from tests.report.conftest import bare_run, metrics_rows
from tests.report.table.conftest import configured, outcome, write_run

from semppl.core.errors import RunError, UserError
from semppl.report.run import run_report
from semppl.report.settings import ReportFlags
from semppl.report.table import run as module
from semppl.report.table.run import run_table, shown

HEAD = "name,labels,epochs,top1,source\n"


def said(paths, out, **flags):
    console = Console(file=io.StringIO(), width=500)
    assert run_report(paths, ReportFlags(table=out, **flags), console) == out
    return out.read_text(), console.file.getvalue()


@pytest.fixture
def good(tmp_path):
    return write_run(tmp_path / "good", configured(), {"knn": outcome(90.0)})


def test_no_html_page_is_made_and_a_second_time_gives_the_same(good, tmp_path):
    first, words = said([good], tmp_path / "x.md")
    assert words == f"table: {tmp_path / 'x.md'} (1 rows, 1 sections)\n"
    assert not list(tmp_path.rglob("*.html"))
    assert "semppl report good --table x.md\n" in first, "names are from the page's folder"
    assert said([good, good], tmp_path / "x.md")[0] == first


def test_runs_that_cannot_be_used_are_named_in_one_line_each(good, tmp_path):
    damaged = write_run(tmp_path / "damaged", configured(), {"knn": outcome(90.0)})
    (damaged / "config.yaml").write_text("{")
    gaps = write_run(tmp_path / "gaps", configured(seed=1), {"knn": outcome(92.0), "linear": outcome(80.0)})
    (gaps / "environment.json").unlink()
    (gaps / "metrics.jsonl").write_text("{")
    (gaps / "evaluations" / "linear.json").write_text("[]")
    half = write_run(tmp_path / "half", configured(seed=2), {"knn": outcome(9.0)}, rows=metrics_rows()[:9])
    paths = [good, tmp_path / "none", damaged, gaps, half, bare_run(tmp_path / "bare")]
    text, words = said(paths, tmp_path / "x.md")
    assert words.splitlines()[:-1] == [
        "none: no run (no config.yaml): left out",
        "damaged: config.yaml is damaged (no valid YAML): what the run was asked to do is not known",
        "damaged: left out",
        "gaps: 1 line of metrics.jsonl cut off or damaged: passed over",
        "gaps: no training yet (metrics.jsonl holds no line)",
        "gaps: linear.json is damaged (no JSON object)",
        "gaps: no environment.json: versions and machine are not known",
        "half: training stopped at epoch 4.5 of 10",
        "half: evaluations/knn.json is of a training that is not finished: left out",
        "bare: no training yet (no metrics.jsonl)",
        "bare: no evaluation yet",
        "bare: no environment.json: versions and machine are not known",
        "bare: left out",
    ]
    assert "| SemPPL | 10 | 2 | 91.0 ± 1.4 |" in text
    assert "- half: training stopped at epoch 4.5 of 10\n" in text


def test_nothing_to_show_is_an_error(tmp_path):
    with pytest.raises(UserError, match=r"no run has a result for a table \(bare: no training yet"):
        said([bare_run(tmp_path / "bare")], tmp_path / "x.md")
    assert not (tmp_path / "x.md").exists()


def test_published_rows(good, tmp_path):
    file = tmp_path / "p.csv"
    file.write_text(f"{HEAD}FixMatch,4000,1024,95.7,a\nFixMatch,40,1024,86.2,b\n")
    text, words = said([good], tmp_path / "x.md", beside=file)
    assert "| FixMatch | 1024 | 95.7 | a |" in text
    assert "86.2" not in text
    assert "FixMatch, published with 40 labels: no run has as many, so it is left out" in words
    assert "--table x.md --beside p.csv" in text
    other = outcome(9.0) | {"data": "else", "data_sha256": "00" * 32}
    write_run(tmp_path / "other", configured(), {"knn": other})
    with pytest.raises(
        UserError, match=r"--beside is about one data set, and the runs are of cifar.npz, else"
    ):
        said([good, tmp_path / "other"], tmp_path / "x.md", beside=file)


def test_bad_requests(good, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="say where with --table"):
        run_report([good], ReportFlags(beside=tmp_path / "p.csv"), Console(quiet=True))
    (tmp_path / "x.md").write_text("mine")
    with pytest.raises(UserError, match="no page of ours"):
        said([good], tmp_path / "x.md")
    assert said([good], tmp_path / "x.md", overwrite=True)[0].startswith("<!-- made by semppl report")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_text", full)
    with pytest.raises(RunError, match=r"x.md cannot be written \(No space left on device\)"):
        run_table([good], ReportFlags(table=tmp_path / "x.md"), Console(quiet=True))


def test_names_as_given_or_from_the_folder_of_the_page(tmp_path):
    out = tmp_path / "docs" / "x.md"
    assert shown(tmp_path / "docs" / "r", out) == "r"
    assert shown(tmp_path / "r", out) == str(tmp_path / "r")
    assert shown(Path("runs/r"), out) == "runs/r"


def test_a_name_that_is_no_utf8(tmp_path):
    path = write_run(tmp_path / "r\udcff|", configured(), {"knn": outcome(90.0)})
    text, words = said([path], tmp_path / "x.md")
    assert "r\\xff\\|" in text
    words.encode()


def test_no_torch(good, tmp_path):
    code = (
        "import sys; from pathlib import Path; from rich.console import Console\n"
        "from semppl.report.run import run_report; from semppl.report.settings import ReportFlags\n"
        "run_report([Path(sys.argv[1])], ReportFlags(table=Path(sys.argv[2])), Console(quiet=True))\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, good, tmp_path / "x.md"], check=True)
    assert (tmp_path / "x.md").is_file()
