import re
from dataclasses import replace

from tests.report.table.conftest import configured, numbers, outcome

from semppl.report.table.page import Facts, section_titles, table_page
from semppl.report.table.sections import sections
from semppl.report.table.settings import MADE_BY


def facts(tmp_path, *names, **more):
    return Facts(
        "semppl report a b --table x.md",
        "semppl report RUN… --table x.md",
        {tmp_path / n: n for n in names},
        **more,
    )


def test_the_page_from_its_first_line_to_its_command(tmp_path):
    relic = {"knn": outcome(80.0), "knn-f": outcome(60.0, labels=40, name="f", labels_per_class=4)}
    found = numbers(tmp_path / "a", configured(), {"knn": outcome(90.0)})
    found += numbers(tmp_path / "b", configured(method={"positives": 0}), relic)
    text = table_page(sections(found), facts(tmp_path, "a", "b", problems=["c: no run"]))
    assert text.startswith(
        f"<!-- {MADE_BY}: the same command writes it again -->\n\n# Results on cifar.npz\n"
    )
    assert "`semppl report RUN… --table x.md` wrote this page from 2 run directories" in text
    assert re.findall(r"^#+ .*", text, re.M) == [
        "# Results on cifar.npz",
        "## 4,000 labels",
        "## 40 labels",
        "## How each row was made",
        "### ReLICv2, 4,000 labels",
        "### SemPPL, 4,000 labels",
        "### ReLICv2, 40 labels",
        "## Runs",
        "## Left out, or with gaps",
        "## The command",
    ]
    assert "Trained as “ReLICv2, 4,000 labels”; measured by:" in text, "what sections share is said once"
    assert text.count("semppl pretrain") == 2
    assert "semppl evaluate b --protocol knn linear --labels-per-class 4 --name f" in text
    assert f"| `a` | 0 | 4,000 | 0 | `{'ef' * 8}…` |" in text
    assert "Versions: Python 3.11, torch 2.11.\n" in text
    assert "- c: no run\n" in text
    assert text.endswith("```\nsemppl report a b --table x.md\n```\n")


def test_other_seeds_and_versions_are_named(tmp_path):
    found = numbers(tmp_path / "a", configured(), {"knn": outcome(90.0)})
    found += numbers(tmp_path / "b", configured(seed=1), {"knn": outcome(90.0)})
    found += numbers(tmp_path / "c", configured(seed=2), {"knn": outcome(90.0)})
    found[2] = replace(found[2], run=replace(found[2].run, environment={}))
    text = table_page(sections(found), facts(tmp_path, "a", "b", "c"))
    assert "The same for 2 more, with `--seed 1 --out b`; `--seed 2 --out c`. Measured by:" in text
    assert "Versions: Python 3.11, torch 2.11, but for\n\n- not known: `c`\n" in text


def test_labels_alone_have_no_training_of_their_own(tmp_path):
    found = numbers(tmp_path / "a", configured(), {"supervised": outcome(50.0), "knn": outcome(90.0)})
    text = table_page(sections(found), facts(tmp_path, "a"))
    assert "Of these runs only the configuration and the labels are used:\n" in text
    assert text.count("semppl pretrain") == 1


def test_runs_for_labels_alone_are_told_once(tmp_path):
    few = outcome(20.0, labels=40, name="f", labels_per_class=4)
    found = numbers(tmp_path / "a", configured(), {"supervised": outcome(50.0), "supervised-f": few})
    found += numbers(tmp_path / "b", configured(seed=1), {"supervised": outcome(50.0, seed=1)})
    text = table_page(sections(found), facts(tmp_path, "a", "b"))
    used = "Of these runs only the configuration and the labels are used"
    assert f"{used}, so that one epoch would do. The same with `--seed 1 --out b`. Measured by:\n" in text
    assert text.count("semppl pretrain") == 1
    assert text.count(f"{used}:\n") == 1


def test_rows_that_only_epochs_tell_apart(tmp_path):
    found = numbers(tmp_path / "a", configured(), {"knn": outcome(90.0)})
    found += numbers(tmp_path / "b", configured(epochs=5.0), {"knn": outcome(90.0)})
    text = table_page(sections(found), facts(tmp_path, "a", "b"))
    assert "### SemPPL, 5 epochs, 4,000 labels" in text
    assert "### SemPPL, 10 epochs, 4,000 labels" in text


def test_titles(tmp_path):
    one, two = (
        numbers(tmp_path / str(i), configured(seed=i), {"knn": outcome(9.0, labels=1)})[0] for i in (0, 1)
    )
    assert section_titles(sections([one])) == ["1 label"]
    assert section_titles(sections([one, replace(two, data=("x", "00"))])) == [
        "cifar.npz, 1 label",
        "x, 1 label",
    ]
    same = sections([one, replace(two, data=("cifar.npz", "00" * 32))])
    assert section_titles(same) == ["cifar.npz (abababab), 1 label", "cifar.npz (00000000), 1 label"]


def test_runs_of_a_row_that_are_no_other_seed_alone_have_their_commands(tmp_path):
    relic = {"positives": 0}
    configs = [configured(method=relic), configured(seed=1, method=relic, per_class=50)]
    configs.append(configured(seed=2, method=relic))
    found = []
    for name, config in zip("abc", configs, strict=True):
        found += numbers(tmp_path / name, config, {"knn": outcome(90.0)})
    text = table_page(sections(found), facts(tmp_path, "a", "b", "c"))
    assert "The same for 1 more, with `--seed 2 --out c`. Other runs of this row:\n\n```\nsemppl" in text
    assert re.findall(r"semppl pretrain .*--labels-per-class (\d+) .*--out (\w)", text) == [
        ("400", "a"),
        ("50", "b"),
    ]


def test_files_of_one_content_are_all_named(tmp_path):
    found = []
    for i in range(6):
        content = outcome(90.0) | {"data": f"d{i}.npz"}
        found += numbers(tmp_path / str(i), configured(seed=i), {"knn": content})
    two = table_page(sections(found[:2]), facts(tmp_path, "0", "1"))
    assert "# Results on d0.npz, d1.npz\n" in two
    assert f"Data: d0.npz, d1.npz (sha256 {'ab' * 6}…)" in two
    assert "# Results on d0.npz, d1.npz, d2.npz, d3.npz and 2 more\n" in table_page(
        sections(found), facts(tmp_path, *map(str, range(6)))
    )
