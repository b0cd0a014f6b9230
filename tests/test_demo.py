import io
import json
from dataclasses import replace

import pytest
from PIL import Image
from rich.console import Console

import semppl.demo as demo
from semppl.core.errors import UserError
from semppl.core.trust import Trust
from semppl.evaluate.scores import Score
from semppl.presets import digits


def result(seed, linear, head=0.0):
    scores = {name: Score(50.0, value) for name, value in zip(demo.ROWS, linear, strict=True)}
    return demo.Result(
        seed, "30 test images", scores, head, [Trust(1, 0.5, 0.5, 1.0), Trust(2, 0.75, 0.25, 0.5)]
    )


def test_the_verdict_compares_with_the_best_of_the_others():
    good = [result(0, (10, 20, 30, 40)), result(1, (10, 20, 32, 44))]
    assert demo.verdict(good).startswith(
        "SemPPL helped: 42.0 % by a linear probe, +11.0 points against ReLICv2"
    )
    bad = [result(0, (10, 20, 30, 29))]
    assert demo.verdict(bad).startswith("SemPPL did not help: 29.0 %")
    head = [result(0, (10, 20, 30, 40), head=41.0)]
    assert "-1.0 points against supervised only (41.0 %)" in demo.verdict(head)


def test_spread_over_seeds():
    assert demo.spread([50.0]) == "50.0"
    assert demo.spread([49.0, 51.0]) == "50.0 ± 1.4"


def test_the_document_has_the_command_and_every_number():
    text = demo.markdown([result(0, (10, 20, 30, 40)), result(1, (10, 20, 32, 44))])
    assert "`semppl demo --seed 0 --seeds 2`" in text
    assert "| SemPPL | 50.0 ± 0.0 | 42.0 ± 2.8 |" in text
    assert "| 2 | 75.0 ± 0.0 | 25.0 ± 0.0 | 50.0 ± 0.0 |" in text


def test_the_whole_journey_in_short(tmp_path, monkeypatch):
    config = digits()
    short = replace(config, epochs=0.6, log_every=2, net=replace(config.net, width=0.0625))
    monkeypatch.setattr(demo, "digits", lambda: short)
    monkeypatch.setattr(demo, "SUPERVISED_STEPS", 3)
    out = io.StringIO()

    def go(**changes):
        console = Console(file=out, width=120)
        return demo.run_demo(tmp_path, seeds=[0], device="cpu", console=console, **changes)

    (first,) = go()
    text = out.getvalue()
    for row in demo.ROWS:
        assert row in text
    assert "SemPPL helped" in text or "SemPPL did not help" in text
    stored = json.loads((tmp_path / "results.json").read_text())
    assert stored["scores"]["SemPPL"]["linear"] == first.scores["SemPPL"].linear
    assert stored["protocol"].startswith("360 test images; 50 labels; k-NN: cosine, k=5")
    assert demo.verdict([first]) in (tmp_path / "results.md").read_text()
    with Image.open(tmp_path / "neighbours.png") as picture:
        assert picture.size[0] > 500
    assert [line.votes for line in first.trust] == [1, 2, 3, 4]
    assert "| SemPPL | " in (tmp_path / "results.md").read_text().split("Linear accuracy of each seed")[1]
    (again,) = go()
    assert "going on from step 6 of 6" in out.getvalue()
    assert again.scores == first.scores
    assert again.trust == first.trust


def test_somebodys_own_files_are_left_alone(tmp_path):
    (tmp_path / "results.md").write_text("mine")
    with pytest.raises(UserError, match=r"results\.md is there already"):
        demo.run_demo(tmp_path, seeds=[0], device="cpu", console=Console(quiet=True))
    assert (tmp_path / "results.md").read_text() == "mine"
