import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from tests.report.conftest import EVIL_CLASS, EVIL_FILE, bare_run, measured_run

from semppl.report.collect import collect
from semppl.report.page import Pictures, run_page, several_page, verdict
from semppl.report.payload import sha256
from semppl.report.thumbnails import Sheet


class Seen(HTMLParser):
    """Elements and text outside of scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self.scripts, self.ids = [], "", [], []
        self._inside = None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        self._inside = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside == "script":
            attrs, text = self.scripts[-1]
            self.scripts[-1] = (attrs, text + data)
        elif self._inside != "style":
            self.text += data


@pytest.fixture
def whole(run_path):
    return run_page(collect(run_path), Pictures(sheets=[Sheet("data:image/webp;base64,AAAA", 32, 3)]))


def test_names_stay_text(whole):
    seen = Seen(whole)
    assert EVIL_CLASS in seen.text
    assert EVIL_FILE in seen.text
    assert not [tag for tag, _ in seen.tags if tag in ("img", "b", "a href")]
    assert not [attrs for _, attrs in seen.tags if any(name.startswith("on") for name in attrs)]
    assert len(seen.scripts) == 3
    whole.encode()


def test_only_our_scripts_may_run(whole):
    seen = Seen(whole)
    (policy,) = [attrs["content"] for tag, attrs in seen.tags if attrs.get("http-equiv")]
    assert policy.startswith("default-src 'none'; img-src data:;")
    data, plotly, script = seen.scripts
    assert data[0] == {"type": "application/json", "id": "data"}
    assert sha256(plotly[1]) in policy
    assert sha256(script[1]) in policy
    assert "unsafe-eval" not in policy
    assert "script-src 'unsafe-inline'" not in policy
    assert not re.search(r"<(link|iframe|img|object)", whole[: whole.index("<script>")])
    assert "innerHTML" not in script[1]
    assert "insertAdjacentHTML" not in script[1]


def test_structure(whole):
    seen = Seen(whole)
    assert len(seen.ids) == len(set(seen.ids)), "each id once"
    names = [tag for tag, _ in seen.tags]
    for landmark in ("header", "nav", "main", "footer"):
        assert names.count(landmark) == 1
    levels = [int(tag[1]) for tag in names if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    targets = [attrs["href"][1:] for tag, attrs in seen.tags if tag == "a"]
    assert set(targets) <= set(seen.ids)
    charts = json.loads(seen.scripts[0][1])["charts"]
    assert {attrs["data-chart"] for _, attrs in seen.tags if "data-chart" in attrs} == set(charts)
    assert ".s0{background-image:url(data:image/webp;base64,AAAA)" in whole
    assert "an image, its 4 ballots with the labelled images that voted" in seen.text


def test_what_is_missing_is_said(tmp_path):
    run = collect(bare_run(tmp_path / "<b>run</b>"))
    seen = Seen(run_page(run, Pictures()))
    assert "What is missing" in seen.text
    for gap in run.gaps:
        assert gap.what in seen.text
        assert gap.command in seen.text
    assert "Not measured yet." in seen.text
    assert "b" not in [tag for tag, _ in seen.tags]


def test_verdicts_have_a_tone(run_path, tmp_path):
    assert verdict(collect(run_path))[0] == "good"
    assert verdict(collect(measured_run(tmp_path / "m")))[1].startswith("Measured, but against no baseline")


def test_several_runs(tmp_path):
    runs = [
        collect(measured_run(tmp_path / "<i>0", 80.0, protocol=EVIL_CLASS)),
        collect(measured_run(tmp_path / "1", 83.0, method__k=5)),
        collect(bare_run(tmp_path / "2")),
    ]
    seen = Seen(several_page(runs))
    assert "No results yet: 2." in seen.text
    assert "not the same protocol" in seen.text
    assert EVIL_CLASS in seen.text
    assert "i" not in [tag for tag, _ in seen.tags]
    assert "differences" in seen.ids
    assert len(seen.ids) == len(set(seen.ids))
