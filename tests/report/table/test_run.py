import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from tests.report.conftest import bare_run, metrics_rows
from tests.report.table.conftest import configured, long_rows, outcome, write_run

from semppl.core.by_labels import NO_PICTURE
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
    assert words == f"table: {tmp_path / 'x.md'} (1 row, 1 section)\n"
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


def split_of(run, labelled):
    roles = ["labelled"] * labelled + ["validation", "unlabelled", "test"]
    lines = [f"{i}.png,{i % 10 if role != 'unlabelled' else ''},{role}" for i, role in enumerate(roles)]
    (run / "split.csv").write_text("\n".join(["path,label,role", *lines]) + "\n")


def many_runs(folder):
    """Each with something that only one of its files knows."""
    fraction = configured(seed=0, per_class=None)
    fine = {"knn": outcome(90.0, step=2500), "finetune": outcome(93.0, step=2500)}
    sgd = outcome(91.0, step=2500, checkpoint=Path("runs/a-seed0/checkpoints/step-00002500.ckpt"))
    early = outcome(70.0, labels=None, step=2500)
    del early["split_sha256"]
    for seed in (0, 1):
        run = write_run(folder / f"a-seed{seed}", replace(fraction, seed=seed), fine, rows=long_rows(seed))
        split_of(run, 36)
    (folder / "a-seed0" / "evaluations" / "linear-sgd.json").write_text(json.dumps(sgd))
    begun = write_run(folder / "begun", configured(seed=2), fine, rows=long_rows(2))
    (begun / "started_from.json").write_text('{"path": "runs/first/checkpoints/step-9.ckpt"}')
    split = write_run(folder / "early", replace(fraction, batch_size=32), {"knn": early}, rows=long_rows(3))
    split_of(split, 38)
    for epochs in (9.0, 10.0):
        config, rows = configured(seed=int(epochs), epochs=epochs), long_rows(epochs, epochs=epochs)
        fit = write_run(folder / f"fit-{epochs:g}", config, fine, rows=rows)
        (fit / "fit.yaml").write_text("minutes: 5\n")
        (fit / "label_next.csv").write_text("damaged, but not read\n")
    gaps = write_run(folder / "gaps", configured(seed=4), {"linear": outcome(80.0), "sets": outcome(1.0)})
    (gaps / "metrics.jsonl").write_text('{"step": 1\n')
    (gaps / "evaluations" / "finetune.json").write_text("[]")
    half = write_run(folder / "half", configured(seed=5), fine, rows=long_rows(5)[:300])
    (half / "environment.json").unlink()
    damaged = write_run(folder / "nothing", configured(seed=6), {})
    (damaged / "config.yaml").write_text("{")
    return sorted(folder.iterdir())


def test_the_page_of_kept_runs_is_the_same_but_for_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs, out = many_runs(Path("runs")), Path("x.md")
    plain, _ = said([Path(path) for path in runs], out)
    first, words = said(runs, out, keep=Path("kept"))
    assert first == plain, "the flag changes nothing on the page"
    assert re.search(r"^kept: kept \(9 copied, \d+\.\d [kM]B\)$", words, re.M)
    for told in (
        *("trained with 36 labels", "## 39 labels", "fine-tuned", "linear by SGD", "--init-from runs/first"),
        *("1 line of metrics.jsonl cut off", "no column is for evaluations/sets.json", "nothing: left out"),
        *("half: training stopped at epoch 6.0 of 10", f"`{'12' * 8}…`", "| – |"),
    ):
        assert told in first, told
    assert "label_next" not in first
    for run in runs:
        run.rename(run.with_name(f".{run.name}"))
    copies = [Path("kept") / run.name for run in runs]
    again, words = said(copies, out, keep=Path("kept"))
    assert again.replace("kept/", "runs/") == first
    made = again[again.index("## How each row was made") : again.index("## The command")]
    commands = [line for line in made.splitlines() if line.startswith("semppl ")]
    assert any("pretrain" in line for line in commands)
    assert any("evaluate" in line for line in commands)
    assert not any("kept/" in line for line in commands), "nobody trains in a copy"
    assert "kept: kept (0 copied, 0.0 kB)" in words
    assert again.endswith(f"semppl report {' '.join(map(str, copies))} --table x.md\n```\n")
    assert len(Path("kept/a-seed0/metrics.jsonl").read_text().splitlines()) < 150


def test_nothing_is_kept_and_no_page_written_where_something_is_wrong(good, tmp_path):
    bare = bare_run(tmp_path / "bare")
    with pytest.raises(UserError, match="no run has a result"):
        said([bare], tmp_path / "x.md", keep=tmp_path / "kept")
    with pytest.raises(UserError, match="holds the run"):
        said([good], tmp_path / "x.md", keep=tmp_path)
    with pytest.raises(
        UserError, match="--keep is for the runs of a table of results: say where with --table"
    ):
        run_report([good], ReportFlags(keep=tmp_path / "kept"), Console(quiet=True))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bare", "good"]
    _, words = said([good, bare, tmp_path / "none"], tmp_path / "x.md", keep=tmp_path / "kept")
    assert sorted(each.name for each in (tmp_path / "kept").iterdir()) == ["bare", "good"]
    assert f"kept: {tmp_path / 'kept'} (2 copied, " in words


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


def test_a_picture_where_there_are_several_numbers_of_labels(tmp_path, monkeypatch):
    few = outcome(60.0, labels=40, name="f", labels_per_class=4)
    both = {"linear": outcome(90.0), "linear-f": few}
    run = write_run(tmp_path / "run", configured(method={"positives": 0}), both)
    (tmp_path / "a b.png").write_text("mine")
    with pytest.raises(UserError, match="in the way of the page's picture"):
        said([run], tmp_path / "a b.md")
    assert (tmp_path / "a b.png").read_text() == "mine"
    assert not (tmp_path / "a b.md").exists()
    for overwrite in (True, False):
        text, _ = said([run], tmp_path / "a b.md", overwrite=overwrite)
        assert "\n\n![Accuracy by number of labels](a%20b.png)\n\n## 4,000 labels" in text
        assert (tmp_path / "a b.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr(module, "drawable", lambda: False)
    text, console = said([run], tmp_path / "a b.md")
    assert "![" not in text
    assert NO_PICTURE in console
    monkeypatch.undo()
    text, console = said([run], tmp_path / "a b.md")
    assert "![" in text, "a picture of ours is no stranger's"
    assert NO_PICTURE not in console
    with pytest.raises(UserError, match="writes text, and a picture"):
        said([run], tmp_path / "a b.png", overwrite=True)


def test_a_picture_that_will_not_be_drawn_is_in_nobodys_way(good, tmp_path):
    (tmp_path / "x.png").write_text("mine")
    text, console = said([good], tmp_path / "x.md")
    assert "![" not in text, "one number of labels needs none"
    assert NO_PICTURE not in console
    assert (tmp_path / "x.png").read_text() == "mine"
