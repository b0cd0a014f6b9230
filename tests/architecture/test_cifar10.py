"""docs/cifar10.py: every command behind the page of results can run, and what is finished is not repeated."""

import importlib.util
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from semppl.cli import main
from semppl.config import Config, to_yaml
from semppl.core.rundir import RunDirectory
from semppl.parse import parse
from semppl.protocols.results import result_file
from semppl.protocols.settings import check_flags, wanted_protocols
from semppl.resolve import resolved

STEPS = {"supervised": 97, "no-pretraining": 97, "-short": 9_765, "-quick": 4_882}
SCRIPT = Path(__file__).parents[2] / "docs" / "cifar10.py"


@pytest.fixture
def grid(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    return importlib.import_module("cifar10_runs")


@pytest.fixture
def script(monkeypatch, tmp_path, grid):
    spec = importlib.util.spec_from_file_location("cifar10", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "cifar10", module)  # dataclasses look there
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "KEPT", tmp_path / "kept")
    return module


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture
def one(grid):
    evaluations = (grid.FROZEN, grid.CONSISTENT)
    return grid.Run("one", "--preset cifar10-40 --labels-per-class 4 --seed 3", evaluations)


@pytest.fixture
def made(monkeypatch, one, script):
    """What was called, in order; `does` says what a call does before it gives its status."""
    made = SimpleNamespace(calls=[], does=lambda arguments: 0)

    class Child:
        def __init__(self, arguments, *, start_new_session, **_):
            assert start_new_session
            made.calls.append(arguments[3:])
            self._arguments = arguments[3:]

        def wait(self):
            return made.does(self._arguments)

        def send_signal(self, signum):
            made.calls.append(["signal", signum])

    monkeypatch.setattr(subprocess, "Popen", Child)
    monkeypatch.setattr(subprocess, "call", lambda arguments, **_: made.calls.append(arguments[3:]) or 0)
    monkeypatch.setattr(script, "runs", lambda: iter([one]))
    return made


@cache  # parsing takes its time
def configured(train) -> Config:
    given = parse(["pretrain", "c.npz", *train.split()]).config
    return resolved(given, image_size=32, num_images=50_000)


@cache
def evaluation(*words):
    return parse(["evaluate", "RUN", *words])


def config_of(run) -> Config:
    return configured(run.train)


def put(folder, run, *files, **changes):
    """A run directory, or a copy of one, with results."""
    path = folder / run.name
    (path / "evaluations").mkdir(parents=True, exist_ok=True)
    (path / "config.yaml").write_text(to_yaml(replace(config_of(run), **changes)))
    for file in files:
        (path / "evaluations" / file).write_text("{}")
    return path


def test_every_command_is_one_that_can_run(grid):
    for run in grid.runs():
        config = config_of(run)
        assert config.net.encoder == ("wrn28-2" if "-wrn" in run.name else "resnet18")
        assert config.total_steps(50_000) == next(
            (steps for word, steps in STEPS.items() if word in run.name), 19_531
        )
        for each in run.evaluations:
            flags = evaluation(*each.words())
            check_flags(flags)
            written = {
                name: result_file(RunDirectory(Path()), name, flags.name).name
                for name in wanted_protocols(flags)
            }
            assert each.files() == written


def test_no_two_runs_and_no_two_results_share_a_place(grid):
    names = [run.name for run in grid.runs()]
    assert len(names) == len(set(names))
    for run in grid.runs():
        assert len(run.files) == sum(len(each.protocols) for each in run.evaluations)


@pytest.mark.parametrize("labels", [4000, 500, 250, 40])
def test_every_row_is_there_for_each_number_of_labels(grid, labels):
    found = {
        (c.method.objective, c.method.positives > 0, c.method.labels, c.seed)
        for run in grid.runs()
        if not run.name.startswith("supervised") and (c := config_of(run))
        if not c.method.positives or 10 * c.data.labels_per_class == labels
    }
    bases = {
        (base, positives, "pseudo", 0)
        for base in ("relicv2", "simclr", "byol")
        for positives in (True, False)
    }
    parts = {("relicv2", True, "given", 0), ("relicv2", True, "oracle", 0)}
    seeds = {("relicv2", positives, "pseudo", seed) for positives in (True, False) for seed in (1, 2)}
    assert found == bases | parts | seeds
    consistent = {
        run.name for run in grid.runs() if any("--consistency" in e.words() for e in run.evaluations)
    }
    assert {f"semppl-{labels}-short-seed{seed}" for seed in grid.SEEDS} <= consistent


def test_fine_tuning_on_all_images_has_rows_without_semantic_positives_and_without_pre_training(grid):
    by_name = {run.name: run for run in grid.runs()}
    better, plain = by_name["relicv2-different-views-short-seed0"], by_name["relicv2-short-seed0"]
    method = replace(config_of(plain).method, same_view=False)
    assert config_of(better) == replace(config_of(plain), method=method)
    tuned = [evaluation(*each.words()) for each in better.evaluations if "--consistency" in each.words()]
    assert [flags.labels_per_class for flags in tuned] == [400, 25]
    alone = by_name["no-pretraining-seed0"].evaluations
    assert [(each.protocols, each.flags) for each in alone] == [
        (("supervised",), each.flags) for each in better.evaluations if "--consistency" in each.words()
    ]
    (semppl,) = (e for e in by_name["semppl-250-short-seed0"].evaluations if "--consistency" in e.words())
    assert {flags.epochs for flags in tuned} == {evaluation(*semppl.words()).epochs}


def test_the_papers_comparison_is_fine_tuned_as_in_the_paper_with_every_seed(grid):
    by_name = {run.name: run for run in grid.runs()}
    names = ["relicv2", "relicv2-different-views", *(f"semppl-{labels}" for labels in grid.LABELS)]
    for name in names:
        first = by_name[f"{name}-quick-seed0"]
        assert all("finetune" in each.protocols for each in first.evaluations)
        for seed in grid.SEEDS:
            run = by_name[f"{name}-quick-seed{seed}"]
            data = replace(config_of(first).data, split_seed=seed)
            assert config_of(run) == replace(config_of(first), seed=seed, data=data)
            assert run.evaluations == first.evaluations


def test_labels_alone_are_trained_with_the_seed_of_the_row(grid):
    seeds = {
        (config_of(run).seed, flags.labels_per_class): flags.seed
        for run in grid.runs()
        for each in run.evaluations
        if each.protocols == ("supervised",) and (flags := evaluation(*each.words()))
    }
    assert seeds == {(seed, per_class): seed for per_class, _ in grid.LABELS.values() for seed in grid.SEEDS}


def test_every_switch_has_a_row_that_differs_in_it_alone(grid):
    by_name = {run.name: config_of(run) for run in grid.runs()}
    plain = by_name["semppl-250-quick-seed0"]
    expected = {
        "all-votes": {"minimum_votes": 0},
        "weighted-votes": {"minimum_votes": 0, "vote_power": 4.0},
        "five-positives": {"positives": 5},
        "five-positives-as-three": {"positives": 5, "alpha": 0.3, "contrast_scale": 1.5},
        "balanced": {},
        "different-views": {"same_view": False},
    }
    assert grid.SWITCHES.keys() == expected.keys()
    for name, changes in expected.items():
        data = replace(plain.data, balance_labels=name == "balanced")
        assert by_name[f"semppl-250-{name}-quick-seed0"] == replace(
            plain, method=replace(plain.method, **changes), data=data
        )


@pytest.mark.parametrize("labels", [4000, 500, 250, 40])
def test_rows_that_take_the_method_apart_differ_in_the_method_alone(grid, labels):
    by_name = {run.name: config_of(run) for run in grid.runs()}
    for name in grid.BASES | grid.PARTS:
        plain, other = by_name[f"semppl-{labels}-quick-seed0"], by_name[f"semppl-{labels}-{name}-quick-seed0"]
        assert plain != other == replace(plain, method=other.method)
    plain = by_name["relicv2-quick-seed0"]
    for base in grid.BASES:
        other = by_name[f"{base}-quick-seed0"]
        assert plain != other == replace(plain, method=other.method)
    assert plain.method.same_view
    method = replace(plain.method, same_view=False)
    assert by_name["relicv2-different-views-quick-seed0"] == replace(plain, method=method)
    doubled = replace(method, invariance_scale=2 * method.invariance_scale)
    assert by_name["relicv2-different-views-more-penalty-quick-seed0"] == replace(plain, method=doubled)


def test_what_is_finished_is_not_repeated(script, one, out):
    assert script.missing(one, out) == list(one.evaluations)
    path = put(out, one, "knn.json", "finetune-consistency.json")
    assert [each.arguments for each in script.commands(one, "c.npz", out)] == [
        ["pretrain", "--resume", "--out", str(path)],
        ["evaluate", str(path), "--protocol", "linear"],
    ], "the protocol that is there would be refused"
    put(out, one, "linear.json")
    assert script.commands(one, "c.npz", out) == []


def test_a_copy_counts_where_it_is_complete_for_it_has_no_weights(script, one, out):
    put(script.KEPT, one, "knn.json", "linear.json")
    assert script.missing(one, out) == list(one.evaluations)
    first, *_ = script.commands(one, "c.npz", out)
    assert first.arguments == ["pretrain", "c.npz", *one.train.split(), "--out", str(out / "one")]
    put(out, one, "knn.json")
    put(script.KEPT, one, "finetune-consistency.json")
    assert script.missing(one, out) == []


def test_results_of_another_configuration_are_not_those_of_the_run(script, one, out):
    put(script.KEPT, one, *one.files, epochs=100.0)
    assert script.missing(one, out) == list(one.evaluations)
    put(script.KEPT, one, *one.files, device="cuda:1")
    assert script.missing(one, out) == list(one.evaluations), "every value that was asked for counts"
    put(script.KEPT, one, *one.files, source="elsewhere.npz")
    assert script.missing(one, out) == []


def test_a_failed_training_ends_its_run_a_failed_evaluation_does_not(script, one, out, made):
    made.does = lambda arguments: 2
    workshop = script.Workshop("c.npz", out)
    workshop.work(one)
    assert [each[0] for each in made.calls] == ["pretrain"]
    assert len(workshop.failed) == 1
    assert "$ semppl pretrain c.npz --preset cifar10-40" in (out / "one.log").read_text()
    made.calls.clear()
    made.does = lambda arguments: 2 if "knn" in arguments else 0
    workshop.work(one)
    assert [each[0] for each in made.calls] == ["pretrain", "evaluate", "evaluate"]
    assert len(workshop.failed) == 2
    assert "--protocol knn linear failed" in workshop.failed[-1]


def test_epochs_of_a_command_are_those_that_it_says(grid, script, out):
    runs = {run.name: script.commands(run, "c.npz", out) for run in grid.runs()}
    for run in grid.runs():
        assert runs[run.name][0].epochs == config_of(run).epochs, run.name
    assert [(each.kind, each.epochs) for each in runs["semppl-40-seed0"]] == [
        ("pretrain", 200),
        ("knn linear", 1),
        ("finetune --consistency", 450),
    ]
    assert runs["semppl-250-wrn-short-seed0"][0].kind == "pretrain --encoder wrn28-2"
    kinds = [each.kind for each in runs["semppl-250-short-seed2"]]
    assert len(kinds) == len(set(kinds)), "plain fine-tuning is no measure of that with confident answers"
    assert len({each.kind for each in runs["supervised-seed1"][1:]}) == 1, "labels make no other kind"


def test_the_longest_command_of_its_kind_tells_how_long_others_take(script):
    pace = script.Pace()
    long, short, other = (
        script.Command([], kind, epochs) for kind, epochs in (("a", 100), ("a", 1), ("b", 9))
    )
    assert pace.expected(long) == 0.0
    pace.note_(short, 40.0)
    pace.note_(long, 300.0)
    pace.note_(short, 40.0)
    assert (pace.expected(long), pace.expected(short), pace.expected(other)) == (300.0, 3.0, 0.0)
    pace.note_(long, 400.0)
    assert pace.expected(long) == 400.0, "of two the slower one"
    pace.note_(long, 200.0)
    assert pace.expected(long) == 300.0, "of three the middle one: the first may have compiled for all"
    unknown = script.Command([], "", 100)
    pace.note_(unknown, 7.0)
    assert pace.expected(unknown) == 0.0, "how much of a training was left is not known"


def test_a_training_that_goes_on_tells_nothing_and_a_command_that_fails_neither(script, one, out, made):
    path = put(out, one)
    first, *_ = script.commands(one, "c.npz", out)
    assert (first.arguments, first.kind) == (["pretrain", "--resume", "--out", str(path)], "")
    made.does = lambda arguments: 1
    workshop = script.Workshop("c.npz", out)
    workshop.work(one)
    assert all(workshop._pace.expected(each) == 0.0 for each in script.commands(one, "c.npz", out))


def test_what_is_finished_is_not_said_to_wait(script, one, out, made, capsys):
    put(script.KEPT, one, *one.files)
    script.Workshop("c.npz", out, end=0.0, whole=True).work(one)
    assert (made.calls, capsys.readouterr().out) == ([], "")


def test_what_is_left_is_said_by_run_and_result(script, one, out, made, monkeypatch, capsys):
    bare, whole = replace(one, name="bare"), replace(one, name="whole")
    put(script.KEPT, whole, *whole.files)
    put(out, one, "knn.json", "linear.json")
    monkeypatch.setattr(script, "runs", lambda: iter([one, whole, bare]))
    script.main(["no.npz", "--out", str(out), "--left"])
    assert made.calls == []
    assert capsys.readouterr().out.splitlines() == [
        "one: finetune-consistency",
        "bare: finetune-consistency, knn, linear",
        "1 of 3 runs are complete",
    ]


def test_runs_come_in_the_order_of_their_names(script, grid):
    plan = list(grid.runs())
    names = ["semppl-250-wrn-*", "*-wrn-*", "relicv2-quick-seed0", "*-wrn-*"]
    assert [run.name for run in script.chosen_from(plan, names)] == [
        "semppl-250-wrn-short-seed0",
        "semppl-4000-wrn-short-seed0",
        "semppl-40-wrn-short-seed0",
        "relicv2-quick-seed0",
    ]
    assert script.chosen_from(plan, ["*"]) == plan


@pytest.mark.parametrize("whole", [True, False])
def test_where_nothing_may_be_half_done_only_what_fits_begins(script, one, out, made, monkeypatch, whole):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(script.time, "monotonic", lambda: clock.now)

    def does(arguments):
        clock.now += 300.0 if arguments[0] == "pretrain" else 50.0
        return 0

    made.does = does
    workshop = script.Workshop("c.npz", out, end=1000.0, whole=whole)
    for _ in range(3):  # the first takes 400 s, and so would the others
        workshop.work(one)
    begun = [each[0] for each in made.calls if each[0] != "report"]
    assert begun.count("pretrain") == (2 if whole else 3)
    assert begun[:3] == ["pretrain", "evaluate", "evaluate"]
    made.calls.clear()
    workshop.work(replace(one, train=f"{one.train} --epochs 20"))
    assert bool(made.calls) == whole, "30 s and 100 fit into the 200 that nothing was begun in"


def test_a_log_that_cannot_be_written_is_one_line(script, one, out, made):
    (out / "one.log").mkdir()
    workshop = script.Workshop("c.npz", out)
    workshop.work(one)
    assert (made.calls, len(workshop.failed)) == ([], 1)


def test_after_stop_nothing_begins_and_what_runs_is_told(script, one, out, made):
    workshop = script.Workshop("c.npz", out)
    begun, told = threading.Event(), threading.Event()

    def wait(arguments):
        begun.set()
        assert told.wait(60)
        return 130

    made.does = wait
    thread = threading.Thread(target=workshop.work, args=(one,))
    thread.start()
    assert begun.wait(60)
    workshop.stop()
    told.set()
    thread.join(60)
    assert [each[0] for each in made.calls] == ["pretrain", "signal"]
    assert made.calls[1] == ["signal", signal.SIGINT]
    assert workshop.failed == []
    workshop.work(one)
    assert len(made.calls) == 2


def test_the_page_takes_whatever_has_more_results_and_stays_one_of_copies(
    script, one, out, made, monkeypatch
):
    monkeypatch.chdir(out.parent)
    workshop = script.Workshop("c.npz", out)
    workshop.write_page()
    assert made.calls == []
    put(out, one, "knn.json")
    kept = put(script.KEPT, one, "knn.json", "linear.json")
    workshop.write_page()
    assert [words[:2] for words in made.calls] == 2 * [["report", "kept/one"]]
    assert kept.is_dir()
    put(out, one, *one.files)
    made.calls.clear()
    workshop.write_page()
    (words,) = made.calls
    flags = parse(words)
    assert (words[1], flags.keep, flags.beside.resolve()) == ("out/one", Path("kept"), script.PUBLISHED)
    assert not kept.exists(), "a copy of an earlier training makes room"


def test_the_page_is_what_its_copies_give(script, tmp_path, monkeypatch):
    page, published, kept = script.PAGE, script.PUBLISHED, Path("docs/results/cifar10")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(page.with_suffix(""), kept)
    for name, place in (("PAGE", page), ("PUBLISHED", published)):
        monkeypatch.setattr(script, name, kept.parent / place.name)
    shutil.copy(published, kept.parent)
    monkeypatch.setattr(script, "KEPT", kept)
    with pytest.raises(SystemExit, match="0"):
        main(script.second_report())
    assert script.PAGE.read_text() == page.read_text()
    assert script.PAGE.with_suffix(".png").is_file() == page.with_suffix(".png").is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["c.npz"], "c.npz: no such file"),
        (["{data}", "--jobs", "0"], "--jobs must be at least 1"),
        (["{data}", "--minutes", "nan"], "--minutes at least 0"),
        (["{data}", "--whole"], "--whole needs --minutes"),
        (["{data}", "--only", "nothing*"], "--only 'nothing*': no run has such a name"),
    ],
)
def test_bad_input_is_one_line_and_nothing_runs(script, tmp_path, made, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    Path("data.npz").touch()
    with pytest.raises(SystemExit, match="2"):
        script.main([word.format(data="data.npz") for word in words])
    assert said in capsys.readouterr().err
    assert made.calls == []
    assert [each.name for each in tmp_path.iterdir()] == ["data.npz"]


def test_the_status_says_whether_something_failed_and_time_that_is_up_starts_nothing(
    script, out, made, monkeypatch
):
    monkeypatch.chdir(out.parent)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    asked = []
    workshop = script.Workshop

    def made_workshop(*arguments, whole):
        asked.append(whole)
        return workshop(*arguments, whole=whole)

    monkeypatch.setattr(script, "Workshop", made_workshop)
    Path("data.npz").touch()
    script.main(["data.npz", "--out", "out", "--minutes", "0", "--whole"])
    script.main(["data.npz", "--out", "out", "--minutes", "0"])
    assert (made.calls, list(out.iterdir()), asked) == ([], [], [True, False])
    made.does = lambda arguments: 1
    with pytest.raises(SystemExit, match="1"):
        script.main(["data.npz", "--out", "out"])
    assert [each[0] for each in made.calls] == ["pretrain"]
