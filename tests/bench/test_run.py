import json
from dataclasses import asdict, replace

import pytest
from rich.console import Console

import semppl.bench.run as run
from semppl.bench.run import draw_bench, load_bench, run_bench, show_bench
from semppl.bench.settings import BenchFlags
from semppl.core.errors import UserError


@pytest.fixture
def console():
    return Console(width=120, record=True)


@pytest.fixture
def quick(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "time_photometric", lambda: {"fast": True})
    monkeypatch.setattr(run, "tables", lambda result: [])
    return BenchFlags(**{**asdict(tiny), "parts": ("photometric",), "out": tmp_path / "out"})


def test_the_file_says_what_was_measured_how_and_where(tiny, tmp_path, console):
    flags = BenchFlags(**{**asdict(tiny), "out": tmp_path / "out"})
    result = run_bench(flags, "semppl bench --out out", console)
    stored = json.loads((tmp_path / "out" / "bench.json").read_text())
    assert stored == json.loads(json.dumps(result))
    assert stored["command"] == "semppl bench --out out"
    assert stored["settings"]["encoder"] == "resnet10"
    assert {"device", "cores", "torch", "semppl"} <= stored["machine"].keys()
    assert stored["step"]["ms"]["semppl"] > 0
    assert stored["agreement"]["neighbours"]["pseudo_labels"] == 1.0
    assert "encoders alone (floor)" in console.export_text()
    assert load_bench(tmp_path / "out") == stored


def test_a_result_that_is_there_is_not_overwritten_unasked(quick, console):
    run_bench(quick, "first", console)
    with pytest.raises(UserError, match=r"bench\.json is there already: give --overwrite"):
        run_bench(quick, "second", console)
    assert load_bench(quick.out)["command"] == "first"
    run_bench(replace(quick, overwrite=True), "second", console)
    assert load_bench(quick.out)["command"] == "second"


def test_what_was_measured_before_a_failure_is_kept(quick, console, monkeypatch):
    def fails(settings, say):
        raise RuntimeError

    monkeypatch.setattr(run, "time_scaling", fails)
    with pytest.raises(RuntimeError):
        run_bench(replace(quick, parts=("photometric", "scaling")), "x", console)
    assert load_bench(quick.out)["photometric"] == {"fast": True}


def test_a_scaling_is_drawn(quick, console, monkeypatch):
    rows = [{"factor": "queue", "value": n, "ms": n / 10, "peak_mb": 1.0} for n in (10, 20)]
    monkeypatch.setattr(run, "time_scaling", lambda settings, say: rows)
    run_bench(replace(quick, parts=("scaling",)), "x", console)
    assert (quick.out / "scaling.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "--steps is 0"),
        ({"device": "tpu"}, "device"),
        ({"precision": "bf16"}, "bf16 is for GPUs"),
    ],
)
def test_values_that_cannot_be_measured_are_refused(quick, console, changes, message):
    with pytest.raises(UserError, match=message):
        run_bench(replace(quick, **changes), "x", console)
    assert not quick.out.exists()


def test_an_out_that_is_a_file_is_refused_before_anything_is_measured(quick, console, monkeypatch):
    monkeypatch.setattr(run, "time_photometric", lambda: pytest.fail("measured"))
    quick.out.write_text("mine")
    with pytest.raises(UserError, match=r"--out .*out: .*give a folder"):
        run_bench(quick, "x", console)
    assert quick.out.read_text() == "mine"


def test_without_matplotlib_a_picture_is_refused_before_anything_is_measured(quick, console, monkeypatch):
    monkeypatch.setattr(run, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="matplotlib"):
        run_bench(replace(quick, parts=("scaling",)), "x", console)


def test_a_picture_is_drawn_again_from_the_file_and_not_over_another(tmp_path):
    rows = [{"factor": "queue", "value": n, "ms": n / 10, "peak_mb": 1.0} for n in (10, 20)]
    draw_bench({"scaling": rows}, tmp_path / "new" / "folder", overwrite=False)
    picture = tmp_path / "new" / "folder" / "scaling.png"
    picture.write_text("mine")
    with pytest.raises(UserError, match="is there already"):
        draw_bench({"scaling": rows}, picture.parent, overwrite=False)
    assert picture.read_text() == "mine"
    draw_bench({"scaling": rows}, picture.parent, overwrite=True)
    assert picture.stat().st_size > 1000


def test_a_result_of_another_kind_is_refused_in_one_line(console):
    with pytest.raises(UserError, match="not a result of semppl bench"):
        show_bench({"machine": {}, "step": {}}, console)


def test_a_file_that_is_no_result_is_named(tmp_path):
    with pytest.raises(UserError, match=r"none\.json: no such file"):
        load_bench(tmp_path / "none.json")
    for content in ("not json", "[1]", "{}", '{"machine": {}}'):
        (tmp_path / "x.json").write_text(content)
        with pytest.raises(UserError, match=r"x\.json: not a result of semppl bench"):
            load_bench(tmp_path / "x.json")
