from dataclasses import replace

import pytest
import torch

from semppl.evaluate.sweep import PAPER_SWEEP
from semppl.protocols import transfer as protocol
from semppl.protocols.transfer import PENALTIES, transfer


def test_a_set_is_transferred_to_by_its_own_metric(trained, subject_of, birds, monkeypatch):
    calls, real = [], protocol.fit_validated

    def spy(train, validation, *arguments, **how):
        calls.append((train.labels_N.tolist(), validation.labels_N.tolist(), how["per_class"]))
        return real(train, validation, *arguments, **how)

    monkeypatch.setattr(protocol, "fit_validated", spy)
    outcome = transfer(subject_of(trained, root=birds, sets=("birdsnap",)))
    (number,) = outcome.numbers
    assert calls == [([0] * 18 + [1] * 18 + [2] * 18, [0] * 2 + [1] * 2 + [2] * 2, False)], "no test image"
    assert number.name == "Birdsnap (top-1)"
    assert number.value > 50, "stripes can be seen with any features"
    told = outcome.details["Birdsnap"]
    assert told["images"] == {"train": 54, "val": 6, "test": 15}
    assert told["chosen"]["penalty"] in PENALTIES
    assert len(told["split_sha256"]) == 64
    assert "45 penalties" in outcome.protocol


def test_the_papers_sweep_by_sgd(trained, subject_of, birds, monkeypatch):
    few = tuple(replace(setting, epochs=3) for setting in PAPER_SWEEP[::1500])
    monkeypatch.setattr(protocol, "PAPER_SWEEP", few)
    outcome = transfer(subject_of(trained, root=birds, sets=("birdsnap",), sweep="paper"))
    assert outcome.details["Birdsnap"]["chosen"]["lr"] in {setting.lr for setting in few}
    assert "12,000 settings" in outcome.protocol


def test_a_set_with_the_other_metric_is_chosen_and_scored_by_it(trained, subject_of, birds, monkeypatch):
    subject = subject_of(trained, root=birds, sets=("birdsnap",))
    (data,) = subject.transfers
    # the first species alone is well represented in the test
    part = data.test[torch.tensor([0, 1, 2, 3, 4, 5, 10])]
    vars(subject)["transfers"] = [replace(data, test=part, metric="mean per class", name="Pets")]
    asked, real = [], protocol.fit_validated
    monkeypatch.setattr(
        protocol, "fit_validated", lambda *data, **how: asked.append(how["per_class"]) or real(*data, **how)
    )
    outcome = transfer(subject)
    (number,) = outcome.numbers
    assert asked == [True]
    assert number.name == "Pets (mean per class)"
    assert number.value == pytest.approx(100 * outcome.details["Pets"]["metrics"]["mean_per_class"])
