from dataclasses import replace

import pytest
import torch

from semppl.evaluate.exam import Mark, final_exam, marked, validation_exam
from semppl.evaluate.finetune import DEFAULT_SWEEP
from semppl.fit import tuning
from semppl.fit.tuning import Tuning, answers, fine_tuned
from semppl.protocols.tuning import tune


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch):
    monkeypatch.setattr(tuning, "_FEWEST", 2)
    monkeypatch.setattr(tuning, "_MOST", 2)


def test_rates_are_chosen_on_the_validation_labels(desk, online, monkeypatch):
    tried = []

    def spy(desk, online, index_L, labels_L, *, title, **how):
        if title is not None:
            tried.append(how["rates"])
        assert not set(index_L.tolist()) & set(desk.dataset.validation_V.tolist())
        return tune(desk, online, index_L, labels_L, title=title, **how)

    monkeypatch.setattr(tuning, "tune", spy)
    exam, validation = final_exam(desk.dataset), validation_exam(desk.dataset)
    tuned, row = fine_tuned(desk, online, exam, validation, seconds=0.0)
    assert torch.equal(row.right_N, exam.mark(answers(desk, tuned.model, exam)))
    assert tuple(tried) == DEFAULT_SWEEP
    assert tuned.how.rates in DEFAULT_SWEEP
    assert (row.name, row.way, len(row.right_N)) == ("SemPPL", "fine-tuned", 21)
    assert row.validation is not None


def test_without_validation_one_setting_is_taken(make_desk, online):
    desk = make_desk(validation=0.0)
    tuned, row = fine_tuned(desk, online, final_exam(desk.dataset), None, seconds=0.0)
    assert (tuned.how, tuned.promised) == (Tuning(DEFAULT_SWEEP[1], 2), None)
    assert row.validation is None


def test_where_training_on_all_labels_runs_away_the_model_is_the_one_that_was_measured(
    desk, online, monkeypatch
):
    index_L, said = desk.given_L, []
    labels_L = desk.given_M[index_L]
    monkeypatch.setattr(type(desk), "say", lambda _, line: said.append(line))
    tuned, row = fine_tuned(desk, online, final_exam(desk.dataset), validation_exam(desk.dataset), 0.0)
    assert tuned.promised == marked(row.right_V)
    hopeful = replace(tuned, promised=Mark(0.0, 0.0, 50.0))
    assert hopeful.once_more(desk, online, index_L, labels_L) is not tuned.model
    assert said == []
    wanting = replace(tuned, promised=Mark(101.0, 101.0, 101.0))
    assert wanting.once_more(desk, online, index_L, labels_L) is tuned.model
    assert "ran away" in said[0]


def test_answers_are_one_for_each_image(desk, online):
    exam = final_exam(desk.dataset)
    assert answers(desk, torch.nn.Sequential(online, torch.nn.Linear(8, 3)), exam).shape == (21,)
