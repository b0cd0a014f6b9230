import math
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from semppl.core.rng import generator
from semppl.data.order import stream_indices
from semppl.evaluate.descent import shuffled
from semppl.evaluate.exam import mark_of
from semppl.evaluate.finetune import (
    DEFAULT_SWEEP,
    PAPER_BATCHES,
    PAPER_CLASSIFIER_RATES,
    PAPER_ENCODER_RATES,
    PAPER_SWEEP,
    Rates,
    best_first,
    create_network,
    create_sgd,
    fine_tune,
    first_layer,
    images_per_step,
    learning_rate,
    predict_logits,
    ran_away,
)
from semppl.nets.encoder import create_encoder
from semppl.nets.heads import create_head

CPU = torch.device("cpu")
RATES = Rates(encoder=0.5, classifier=2.0)
GIVEN = {"classes": 3, "rates": RATES, "batch_size": 4, "seed": 0, "device": CPU}


class Encoder(nn.Module):
    num_features = 5

    def __init__(self):
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 5, 4, bias=False), nn.BatchNorm2d(5)

    def forward(self, x):
        return self.norm(self.convolution(x)).flatten(1)


def modules(seed=0):
    torch.manual_seed(seed)
    return Encoder(), first_layer(create_head(5, 7, 4))


def patches(labels, seed=0):
    """4×4 images whose brightest channel is their class."""
    rng = torch.Generator().manual_seed(seed)
    images = 0.3 * torch.randn(len(labels), 3, 4, 4, generator=rng)
    images[torch.arange(len(labels)), labels] += 1
    return images


def flipped(images):
    def crops(index, rng):
        views = images[index]
        return views.flip(3).where(torch.rand(len(index), 1, 1, 1, generator=rng) < 0.5, views)

    return crops


def run(networks, crops, labels, **changes):
    given = {**GIVEN, **changes}
    given["batch_size"] = images_per_step(len(labels), given["batch_size"])
    drawn = {name: given[name] for name in ("classes", "batch_size", "seed")}
    examples = shuffled(crops, labels, name="finetune", **drawn)
    return fine_tune(*networks, examples, num_labels=len(labels), **given)


def tuned(labels, **changes):
    return run(modules(), flipped(patches(labels)), labels, **changes)


def test_the_learning_rate_by_hand():
    # 30 epochs drop at 18 and 24; a batch of 512 is twice 256
    for epoch, rate in {0: 0.01, 17: 0.01, 18: 0.002, 23: 0.002, 24: 0.0004, 29: 0.0004}.items():
        assert learning_rate(epoch, base=0.005, batch_size=512) == pytest.approx(rate)
    assert learning_rate(0, base=0.3, batch_size=64) == pytest.approx(0.075)
    # 300 epochs drop at 180 and 240
    factors = [learning_rate(e, base=1, batch_size=256, epochs=300) for e in (179, 180, 239, 240)]
    assert factors == pytest.approx([1, 0.2, 0.2, 0.04])


def test_the_sweeps_are_the_papers_and_a_small_one():
    assert len(PAPER_ENCODER_RATES) == len(PAPER_CLASSIFIER_RATES) == 6
    assert PAPER_BATCHES == (512, 1024, 2048)
    assert len(set(PAPER_SWEEP)) == 108
    assert (512, Rates(0.0035, 0.025)) in PAPER_SWEEP
    assert 3 <= len(set(DEFAULT_SWEEP)) == len(DEFAULT_SWEEP) <= 4


def test_a_step_has_at_most_all_images_and_two_at_least():
    assert images_per_step(640, 128) == 128
    assert images_per_step(50, 128) == 50
    assert images_per_step(1, 128) == 2


def test_two_groups_hold_the_right_parameters_and_nothing_decays():
    model = create_network(*modules(), classes=3, seed=0)
    body, head = create_sgd(model, Rates(0.02, 0.3)).param_groups
    expected = {id(p) for part in (model.encoder, model.hidden) for p in part.parameters()}
    assert {id(p) for p in body["params"]} == expected
    assert {id(p) for p in head["params"]} == {id(model.classifier.weight), id(model.classifier.bias)}
    assert len(body["params"]) + len(head["params"]) == len(list(model.parameters()))
    assert (body["lr"], head["lr"]) == (0.02, 0.3)
    for group in (body, head):
        assert (group["weight_decay"], group["momentum"], group["nesterov"]) == (0, 0.9, True)


def test_the_network_is_copied_and_its_classifier_is_new():
    encoder, hidden = modules()
    encoder.requires_grad_(False)  # as in a target network
    before = torch.get_rng_state()
    model = create_network(encoder, hidden, classes=30, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(p.requires_grad for p in model.parameters())
    assert not encoder.convolution.weight.requires_grad
    assert model.encoder is not encoder
    assert model.hidden[0] is not hidden[0]
    assert model.classifier.weight.shape == (30, 7)
    assert model.classifier.bias.eq(0).all()
    # σ = 1/√7 = 0.378, of which cutting off at 2σ leaves 0.88
    assert 0.28 < model.classifier.weight.std() < 0.38
    assert model.classifier.weight.abs().max() <= 2 / 7**0.5
    x = patches(torch.tensor([0, 1]))
    model.eval()
    encoder.eval()
    hidden.eval()
    assert torch.equal(model.features(x), encoder(x))
    assert torch.equal(model(x), model.classifier(hidden(encoder(x))))


def test_a_whole_projector_is_no_hidden_layer():
    with pytest.raises(ValueError, match="see first_layer"):
        create_network(Encoder(), create_head(5, 7, 7), classes=3, seed=0)


def test_every_step_against_nesterov_by_hand():
    # two steps an epoch, 5 epochs: rates drop at epochs 3 and 4
    labels, images = torch.tensor([0, 1, 2, 0]), patches(torch.tensor([0, 1, 2, 0]))
    told = []
    model = tuned(labels, epochs=5, batch_size=2, seed=5, advance=told.append)
    reference = create_network(*modules(), classes=3, seed=5).train()
    momenta = {name: torch.zeros_like(p) for name, p in reference.named_parameters()}
    for step, factor in enumerate([1] * 6 + [0.2] * 2 + [0.04] * 2):
        index = stream_indices(step, 2, 4, 5, "finetune")
        reference.zero_grad()
        views = flipped(images)(index, generator(5, "finetune", step))
        F.cross_entropy(reference(views), labels[index]).backward()
        for name, p in reference.named_parameters():
            base = RATES.classifier if name.startswith("classifier") else RATES.encoder
            momenta[name] = 0.9 * momenta[name] + p.grad
            p.data -= base * 2 / 256 * factor * (p.grad + 0.9 * momenta[name])
    for name, value in reference.state_dict().items():
        assert torch.allclose(model.state_dict()[name], value, atol=1e-5), name
    assert told == list(range(1, 11))
    assert not model.training


def test_nothing_given_is_changed():
    encoder, hidden = modules()
    encoder.eval()
    before = deepcopy((encoder.state_dict(), hidden.state_dict()))
    labels = torch.arange(6) % 3
    model = run((encoder, hidden), flipped(patches(labels)), labels, epochs=3)
    for state, module in zip(before, (encoder, hidden), strict=True):
        assert all(torch.equal(module.state_dict()[name], value) for name, value in state.items())
    assert not encoder.training
    assert all(p.grad is None for p in (*encoder.parameters(), *hidden.parameters()))
    # while the copies learnt, in train mode
    assert not torch.equal(model.encoder.convolution.weight, encoder.convolution.weight)
    assert not torch.equal(model.hidden[0].weight, hidden[0].weight)
    assert not torch.equal(model.encoder.norm.running_mean, encoder.norm.running_mean)
    assert not torch.equal(model.hidden[1].running_var, hidden[1].running_var)


def test_it_is_a_function_of_the_seed():
    labels = torch.arange(6) % 3
    one, same, other = (tuned(labels, seed=seed, epochs=2) for seed in (0, 0, 1))
    assert all(torch.equal(one.state_dict()[name], value) for name, value in same.state_dict().items())
    assert not torch.equal(one.classifier.weight, other.classifier.weight)


@pytest.mark.parametrize("per_class", [1, 8])
def test_it_learns_what_can_be_separated(per_class):
    labels = torch.arange(3 * per_class) % 3
    model = tuned(labels, epochs=max(30, 800 // len(labels)), batch_size=8)
    truth = torch.arange(30) % 3
    assert torch.equal(predict_logits(model, [patches(labels)]).argmax(1), labels)
    assert (predict_logits(model, patches(truth, seed=1).split(7)).argmax(1) == truth).float().mean() > 0.9


def test_a_real_encoder_and_projector_fit_together():
    torch.manual_seed(0)
    encoder = create_encoder("resnet10", width=0.0625, stem="small")
    hidden = first_layer(create_head(encoder.num_features, 8, 4))
    crops = flipped(torch.randn(2, 3, 8, 8))
    model = run((encoder, hidden), crops, torch.tensor([0, 1]), epochs=2)
    assert model(torch.randn(5, 3, 8, 8)).shape == (5, 3)


def test_a_single_label_is_shown_twice():
    shown = []
    images = patches(torch.tensor([2]))

    def crops(index, rng):
        shown.append(index.tolist())
        return images[index] + 0.1 * torch.randn(len(index), 3, 4, 4, generator=rng)

    model = run(modules(), crops, torch.tensor([2]))
    assert shown == [[0, 0]] * 15
    assert model(images).argmax(1).tolist() == [2]
    assert model(images).isfinite().all()


def test_a_batch_of_one_becomes_a_batch_of_two():
    sizes = []
    labels = torch.arange(3)
    images = patches(labels)

    def crops(index, rng):
        sizes.append(len(index))
        return images[index]

    run(modules(), crops, labels, epochs=1, batch_size=1)
    assert sizes == [2, 2]


def test_settings_come_best_first_and_equals_as_they_came():
    sweep = [Rates(1, 1), Rates(2, 1), Rates(3, 1), Rates(4, 1)]
    accuracy = dict(zip(sweep, (math.nan, 0.5, 0.7, 0.7), strict=True))
    scores = best_first(sweep, accuracy.get)
    assert list(scores) == [Rates(3, 1), Rates(4, 1), Rates(2, 1), Rates(1, 1)]
    assert [scores[rates] for rates in sweep[1:]] == [0.5, 0.7, 0.7]
    with pytest.raises(ValueError, match="nothing to choose"):
        best_first([], accuracy.get)


@pytest.mark.parametrize(
    ("own", "right", "left_out", "away"),
    [
        # Wilson's interval of 28 of 50 begins at 42.3 %
        pytest.param(105, 28, 50, True, id="42.0 % where 28 of 50 were right"),
        pytest.param(106, 28, 50, False, id="42.4 % where 28 of 50 were right"),
        pytest.param(250, 28, 50, False, id="all of its own"),
        # of 10 of 10 it begins at 72.2 %: one of 40 that is wrong is no reason
        pytest.param(244, 10, 10, False, id="97.6 % where ten of ten were right"),
        pytest.param(180, 10, 10, True, id="72.0 % where ten of ten were right"),
        pytest.param(0, 0, 10, False, id="nothing was promised"),
    ],
)
def test_a_training_ran_away_that_knows_less_of_its_own_labels_than_of_others(own, right, left_out, away):
    assert ran_away(mark_of(own / 250, 250), mark_of(right / left_out, left_out)) is away


def test_rates_are_bolder_if_none_is_smaller():
    middle = Rates(0.005, 0.05)
    assert [rates.bolder(middle) for rates in DEFAULT_SWEEP] == [False, True, True, True]
    assert not Rates(0.02, 0.04).bolder(middle)
    assert str(middle) == "0.005 and 0.05"


def test_logits_come_in_evaluation_mode_and_leave_the_mode_alone():
    model = create_network(*modules(), classes=3, seed=0).train()
    x = patches(torch.arange(5) % 3)
    logits = predict_logits(model.double(), x.double().split(2))
    assert model.training
    assert (logits.dtype, logits.device, logits.requires_grad) == (torch.float32, CPU, False)
    assert not logits.is_inference()
    assert torch.allclose(logits, model.eval()(x.double()).float())


def test_the_mode_comes_back_even_if_the_images_fail():
    def broken():
        yield patches(torch.tensor([0, 1]))
        raise OSError("a broken file")

    model = create_network(*modules(), classes=3, seed=0).train()
    with pytest.raises(OSError, match="broken"):
        predict_logits(model, broken())
    assert model.training
    with pytest.raises(ValueError, match="no images"):
        predict_logits(model, [])
