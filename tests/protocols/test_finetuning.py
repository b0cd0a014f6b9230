from dataclasses import replace

import pytest
import torch

from semppl.evaluate.finetune import DEFAULT_SWEEP, PAPER_SWEEP, Rates
from semppl.protocols import finetuning
from semppl.protocols.finetuning import finetune


@pytest.fixture
def tried(monkeypatch):
    """What was trained, on how many labels."""
    calls = []
    real = finetuning.tune

    def spy(desk, online, index_L, labels_L, **how):
        calls.append((how["batch_size"], how["rates"], how["epochs"], how["seed"], set(index_L.tolist())))
        return real(desk, online, index_L, labels_L, **{**how, "epochs": 1})

    monkeypatch.setattr(finetuning, "tune", spy)
    return calls


def test_settings_are_chosen_on_labels_of_training_and_seeds_train_on_all(
    trained, subject_of, tried, monkeypatch
):
    subject = subject_of(trained, seeds=2)
    asked, real = [], type(subject.desk).logits

    def spy(desk, model, images, *title):
        asked.append(images)
        return real(desk, model, images, *title)

    monkeypatch.setattr(type(subject.desk), "logits", spy)
    outcome = finetune(subject)
    # four times the labels that choose; then for each seed its own labels, and the exam
    choosing = subject.desk.dataset.images[subject.task.labels.choose_V]
    assert [len(images) for images in asked] == [3] * 4 + [15, 30] * 2
    assert all(torch.equal(images, choosing) for images in asked[:4])
    *sweep, first, second = tried
    assert [rates for _, rates, *_ in sweep] == list(DEFAULT_SWEEP)
    fit, chosen = set(subject.task.labels.fit_L.tolist()), set(subject.task.labels.choose_V.tolist())
    assert all(index == fit for *_, index in sweep)
    assert not fit & chosen
    assert first[4] == second[4] == fit | chosen
    assert (first[3], second[3]) == (0, 1)
    # 15 labels are one batch: 300 steps are 300 epochs
    assert first[2] == 300
    assert len(outcome.settings["sweep"]) == 4
    best = max(outcome.settings["sweep"], key=lambda row: row["accuracy"])
    assert outcome.settings["rates_for_a_batch_of_256"]["encoder"] == best["encoder"]
    assert "chosen from 4 on 3 of the labels" in outcome.protocol
    assert outcome.numbers[0].deviation is not None


@pytest.fixture
def ruins(trained, subject_of, monkeypatch):
    """Gives what a fine-tuning finds: (rates, seed) → how many of its own 15 labels a training on all of them
    has right, else all; and the lines that it says.
    """
    real = finetuning.tune

    def run(known, **flags):
        subject, said = subject_of(trained, **flags), []
        number = len(subject.task.labels.all_L)

        def tune(desk, online, index_L, labels_L, **how):
            model = real(desk, online, index_L, labels_L, **{**how, "epochs": 1})
            model.own = known.get((how["rates"], how["seed"]), number) if len(index_L) == number else None
            return model

        def right_on(desk, model, index_L, labels_L):
            return torch.arange(number) < model.own

        monkeypatch.setattr(finetuning, "tune", tune)
        monkeypatch.setattr(finetuning, "right_on", right_on)
        # what each setting has is known, so that it is known which is the next best: 43.9 % and more are due
        scores = {"setting3": 100.0, "setting4": 99.0, "setting1": 98.0, "setting2": 97.0}
        monkeypatch.setattr(finetuning, "recalled", lambda *given: scores[given[2]])
        monkeypatch.setattr(type(subject.desk), "say", lambda _, line: said.append(line))
        return finetune(subject), [line for line in said if line.startswith("fine-tuning")]

    return run


CAREFUL, MIDDLE, BEST, BOLD = DEFAULT_SWEEP


def test_a_training_that_runs_away_gives_way_to_the_next_best_setting_that_is_not_bolder(ruins):
    whole, said = ruins({})
    assert (whole.settings["rates_for_a_batch_of_256"], whole.details["ran_away"]) == (vars(BEST), [])
    assert not said
    saved, said = ruins({(BEST, 1): 6}, seeds=3)
    assert [each["encoder"] for each in saved.details["trained_with"]] == [0.005, 0.001, 0.005]
    (lost,) = saved.details["ran_away"]
    assert lost == {
        "batch_size": 128,
        "encoder": 0.005,
        "classifier": 0.2,
        "seed": 1,
        "own_labels": pytest.approx(40),
    }
    assert saved.settings["rates_for_a_batch_of_256"] == vars(BEST), "of the first seed"
    assert [row["encoder"] for row in saved.settings["sweep"]] == [rates.encoder for rates in DEFAULT_SWEEP]
    assert said == [
        "fine-tuning on all labels, seed 1: rates 0.005 and 0.2 ran away (40 % of its own labels right, "
        "where they had 100 % of labels left out)"
    ]
    assert saved.protocol.replace("3 seeds", "1 seed") == whole.protocol, "the same rule for all"


def test_where_nothing_holds_the_one_with_the_most_of_its_own_labels_right_is_marked(ruins):
    outcome, said = ruins({(BEST, 0): 2, (CAREFUL, 0): 5, (MIDDLE, 0): 3, (BOLD, 0): 6})
    # what is bolder than one that ran away is not tried
    assert [each["own_labels"] for each in outcome.details["ran_away"]] == pytest.approx([200 / 15, 500 / 15])
    assert outcome.settings["rates_for_a_batch_of_256"] == vars(CAREFUL)
    assert "no rates held; those with the most of its own labels right are 0.001 and 0.05" in said[-1]


def test_of_the_papers_sweep_three_settings_are_tried(ruins, monkeypatch):
    settings = tuple((512, Rates(each / 1000, each / 10)) for each in (2, 1, 4, 3))
    monkeypatch.setattr(finetuning, "PAPER_SWEEP", settings)
    outcome, _ = ruins({(rates, 0): 0 for _, rates in settings}, sweep="paper")
    assert [each["encoder"] for each in outcome.details["ran_away"]] == [0.004, 0.003, 0.002]


def test_confident_answers_are_those_of_what_held(ruins):
    outcome, _ = ruins({(BEST, 0): 6}, confident=0.0)
    assert outcome.details["trained_with"][0]["encoder"] == CAREFUL.encoder
    assert len(outcome.details["confident"]) == 1


def test_the_papers_sweep_has_its_108_settings_and_30_epochs(trained, subject_of, tried, monkeypatch):
    monkeypatch.setattr(finetuning, "PAPER_SWEEP", PAPER_SWEEP[:2])
    outcome = finetune(subject_of(trained, sweep="paper"))
    assert len(PAPER_SWEEP) == 108
    assert [(batch, rates) for batch, rates, *_ in tried[:2]] == list(PAPER_SWEEP[:2])
    assert all(epochs == 30 for _, _, epochs, *_ in tried)
    assert outcome.settings["batch_size"] == 15, "at most all labels"


def test_batches_of_more_than_all_labels_are_trained_once(trained, subject_of, tried, monkeypatch):
    rates = PAPER_SWEEP[0][1]
    sizes = [4, 512, 1024, 2048]
    monkeypatch.setattr(finetuning, "PAPER_SWEEP", tuple((batch, rates) for batch in sizes))
    outcome = finetune(subject_of(trained, sweep="paper"))
    assert [batch for batch, *_ in tried[:2]] == [4, 512]
    assert len(tried) == 3, "two trainings that choose, and the one with all labels"
    rows = outcome.settings["sweep"]
    assert [row["batch_size"] for row in rows] == sizes
    assert len({row["accuracy"] for row in rows[1:]}) == 1


def test_without_labels_to_choose_with_nothing_is_chosen(trained, subject_of, tried):
    outcome = finetune(subject_of(trained, validation=0.0, epochs=3))
    assert [(rates, epochs) for _, rates, epochs, *_ in tried] == [(DEFAULT_SWEEP[1], 3)]
    assert outcome.settings["sweep"] == []
    assert "taken without choosing" in outcome.protocol


def test_the_run_stays_as_it_is(trained, subject_of, tried):
    subject = subject_of(trained, validation=0.0)
    before = {name: value.clone() for name, value in subject.online.state_dict().items()}
    finetune(subject)
    assert all(torch.equal(value, before[name]) for name, value in subject.online.state_dict().items())


def test_weights_without_a_projector_are_said_to_have_a_new_layer(subject, tried):
    assert "fine-tuned from the projector's first layer" in finetune(subject).protocol
    bare = replace(subject, projected=False)
    assert "fine-tuned from the encoder, with a new hidden layer" in finetune(bare).protocol


def test_confident_answers_join_in_a_second_training_from_the_start(trained, subject_of, tried):
    subject = subject_of(trained, confident=0.0)
    outcome = finetune(subject)
    (facts,) = outcome.details["confident"]
    assert facts["joined"] == facts["of"] == 21
    *_, first, second = tried
    assert len(first[4]) == 15
    assert second[4] == set(range(36))
    assert first[:2] == second[:2]
    assert "then anew for 300 epochs with its own answers of probability 0 and more as" in outcome.protocol
    assert finetune(subject_of(trained)).details["confident"] == []


def test_epochs_are_of_the_training_with_confident_answers_alone(trained, subject_of, tried):
    outcome = finetune(subject_of(trained, confident=0.0, epochs=2))
    *sweep, first, second = (epochs for _, _, epochs, *_ in tried)
    assert sweep == [300] * 4, "two epochs of 12 labels would be two steps, and choose the largest rates"
    assert (first, second) == (300, 2)
    assert outcome.settings["epochs"] == 300
    assert outcome.details["confident"][0]["epochs"] == 2
    assert "300 epochs, rates" in outcome.protocol
    assert "then anew for 2 epochs with" in outcome.protocol
