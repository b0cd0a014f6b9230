"""Documents are checked against the code: commands, symbols, links, and the README's Python."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.deploy.conftest import build
from torch.nn import functional as F

from semppl.cli import main
from semppl.deploy.model import save_network

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
TORCHRUN = {
    *("--nproc-per-node", "--nnodes", "--rdzv-backend", "--rdzv-endpoint"),
    *("--max-restarts", "--signals-to-handle"),
}


def test_the_readme_opens_with_the_two_commands():
    commands = re.findall(r"^make \w+", (ROOT / "README.md").read_text(), flags=re.M)
    assert commands[:2] == ["make demo", "make test"]
    rules = (ROOT / "Makefile").read_text()
    for command in commands:
        assert f"\n{command.split()[1]}:" in rules


def test_the_readmes_python_runs():
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
    B, V, A, D = 6, 2, 3, 8
    names = {"B": B, "V": V, "A": A, "D": D, "labels_B": torch.tensor([0, 1, 2, -1, -1, -1])}
    names["online_ABD"] = F.normalize(torch.randn(A, B, D), dim=-1).requires_grad_()
    names["target_VBD"] = F.normalize(torch.randn(V, B, D), dim=-1)
    exec(code, names)
    names["loss"].backward()
    assert names["online_ABD"].grad.abs().sum() > 0


def anchors(page):
    """Of its headings, as GitHub names them."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.S), flags=re.M)
    names = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
    return {name if not (n := names[:i].count(name)) else f"{name}-{n}" for i, name in enumerate(names)}


def test_anchors_are_those_of_github(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# `fit`: 4,000 labels\n```\n# a comment\n```\n## What it is\n## What it is\n")
    assert anchors(page) == {"fit-4000-labels", "what-it-is", "what-it-is-1"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page):
    for file, _, anchor in re.findall(r"\]\((?!http)([^)#\s]*)(#([^)\s]+))?\)", page.read_text()):
        target = page.parent / file if file else page
        assert target.exists(), file
        assert not anchor or anchor in anchors(target), (file, anchor)


def test_every_flag_in_the_documents_exists(capsys):
    text = ""
    for verb in (
        "pretrain",
        "demo",
        "doctor",
        "bench",
        "fit",
        "predict",
        "evaluate",
        "export",
        "import",
        "report",
        "ablate",
        "masks",
    ):
        with pytest.raises(SystemExit):
            main([verb, "--help"])
        text += capsys.readouterr().out
    text += "".join((ROOT / "docs" / name).read_text() for name in ("cifar10.py", "label_next.py"))
    known = set(re.findall(r"--[a-z][a-z.\-]*", text)) | {"--logdir", "--quiet"} | TORCHRUN
    for page in PAGES:
        used = set(re.findall(r"(?<![\w-])--[a-z][a-z.\-]*[a-z]", page.read_text()))
        assert used <= known, (page.name, used - known)


def test_every_symbol_of_the_algorithm_exists():
    text = (ROOT / "docs" / "algorithm.md").read_text()
    pairs = 0
    for cell in re.split(r"[|\n]", text):
        module = None
        for name in re.findall(r"`([^`]+)`", cell):
            if name.endswith(".py") and not name.startswith("test"):
                module = importlib.import_module("semppl." + name[:-3].replace("/", "."))
            elif module is not None and re.fullmatch(r"[A-Za-z_.]+", name):
                owner = module
                for part in name.split("."):
                    owner = getattr(owner, part)
                pairs += 1
        for path in re.findall(r"`(tests/[\w/.]+)`", cell):
            assert (ROOT / path).exists(), path
    assert pairs > 25


def test_the_python_of_the_weights_runs(tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "weights.md").read_text(), flags=re.S)
    save_network(build(), tmp_path / "runs" / "photos-fit-seed0" / "model")
    Image.fromarray(np.zeros((20, 30, 3), np.uint8)).save(tmp_path / "cat.jpg")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(code, names)
    assert names["network"].classes == ("cat", "dog", "owl")
    assert names["x"].shape == (1, 3, 8, 8)
