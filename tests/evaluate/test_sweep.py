import math
from dataclasses import replace
from itertools import islice, product

import pytest
import torch
from torch.nn import functional as F

from semppl.evaluate import sweep as module
from semppl.evaluate.linear import standard
from semppl.evaluate.sweep import (
    PAPER_SWEEP,
    Labelled,
    SgdSetting,
    batches,
    rates,
    select,
    sgd_sweep,
    tuned_sgd,
)
from semppl.optim.schedule import warmup_cosine

PLAIN = SgdSetting(
    lr=0.1, batch_size=8, weight_decay=0.0, warmup_epochs=0, momentum=0.9, nesterov=False, epochs=4
)
MANY = [
    SgdSetting(lr, batch, decay, warmup, momentum, nesterov, epochs)
    for lr, batch, decay, warmup, momentum, nesterov, epochs in product(
        (0.01, 0.5), (7, 64), (1e-3, 0.1), (0, 2), (0.9, 0.99), (True, False), (3, 5)
    )
]


def blobs(count, seed=0, apart=1.0):
    """Three overlapping classes in four dimensions, not centred."""
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    return Labelled(apart * torch.eye(3, 4)[labels] + 0.5 * torch.randn(count, 4, generator=rng) + 2, labels)


def by_torch(data, setting, seed):
    """One setting by torch's own optimiser, on the same mini-batches."""
    mean, scale = standard(data.features_NF)
    x = (data.features_NF - mean) / scale
    weight, bias = torch.zeros(3, 4, requires_grad=True), torch.zeros(3, requires_grad=True)
    groups = [{"params": [weight], "weight_decay": setting.weight_decay}, {"params": [bias]}]
    sgd = torch.optim.SGD(groups, lr=1.0, momentum=setting.momentum, nesterov=setting.nesterov)
    count = min(setting.batch_size, len(x))
    total, warmup = (math.ceil(e * len(x) / count) for e in (setting.epochs, setting.warmup_epochs))
    for step, index in enumerate(islice(batches(len(x), setting.batch_size, seed), total)):
        for group in sgd.param_groups:
            group["lr"] = warmup_cosine(step, peak=setting.lr, warmup=warmup, total=total)
        sgd.zero_grad()
        F.cross_entropy(x[index] @ weight.T + bias, data.labels_N[index]).backward()
        sgd.step()
    weight, bias = weight.detach() / scale, bias.detach()
    return weight, bias - weight @ mean


def test_the_papers_sweep_has_12_000_settings():
    assert len(PAPER_SWEEP) == len(set(PAPER_SWEEP)) == 12_000
    assert {s.batch_size for s in PAPER_SWEEP} == {128, 256, 512, 1024, 2048}
    assert {s.lr for s in PAPER_SWEEP} == {0.001, 0.01, 0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 1, 2}
    assert {s.weight_decay for s in PAPER_SWEEP} == {1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1}
    assert {s.epochs for s in PAPER_SWEEP} == {20, 30, 60, 80, 100}
    assert {(s.warmup_epochs, s.momentum, s.nesterov) for s in PAPER_SWEEP} == set(
        product((0, 10), (0.9, 0.99), (True, False))
    )


def test_each_setting_is_torchs_sgd():
    data = blobs(30)
    layers = sgd_sweep(*data, MANY, classes=3, seed=5)
    for s, setting in enumerate(MANY):
        weight, bias = by_torch(data, setting, seed=5)
        assert torch.allclose(layers.weight_SYF[s], weight, atol=1e-5, rtol=1e-5), setting
        assert torch.allclose(layers.bias_SY[s], bias, atol=1e-5, rtol=1e-5), setting


@pytest.mark.parametrize("memory", [1, 2000, None])
def test_company_order_and_chunks_change_nothing(memory, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 3)
    data = blobs(30)
    whole = sgd_sweep(*data, MANY, classes=3, seed=5)
    some = [40, 3, 17, 3, 60]
    parts = sgd_sweep(*data, [MANY[i] for i in some], classes=3, seed=5, memory=memory)
    assert torch.allclose(parts.weight_SYF, whole.weight_SYF[some], atol=1e-6)
    assert torch.allclose(parts.bias_SY, whole.bias_SY[some], atol=1e-6)
    assert not torch.allclose(
        sgd_sweep(*data, MANY, classes=3, seed=6).weight_SYF, whole.weight_SYF, atol=1e-4
    )


def test_a_setting_that_diverges_harms_no_other_and_loses():
    data = blobs(30)
    wild = replace(PLAIN, lr=1e30, weight_decay=0.1)
    layers = sgd_sweep(*data, [wild, PLAIN, wild], classes=3, seed=0)
    assert not layers.weight_SYF[0].isfinite().all()
    alone = sgd_sweep(*data, [PLAIN], classes=3, seed=0)
    assert torch.allclose(layers.weight_SYF[1], alone.weight_SYF[0], atol=1e-6)
    found = select(data, blobs(30, seed=1), [wild, PLAIN, wild], classes=3, seed=0)
    assert found.setting == PLAIN
    assert found.scores_S[[0, 2]].tolist() == [-1, -1]


def test_the_rate_is_the_schedule_of_training():
    settings = [replace(PLAIN, warmup_epochs=2), PLAIN, replace(PLAIN, warmup_epochs=9, lr=3.0)]
    found = rates(settings, torch.arange(16), num_images=30)
    for s, setting in enumerate(settings):
        warmup = math.ceil(setting.warmup_epochs * 30 / 8)
        expected = [warmup_cosine(t, peak=setting.lr, warmup=warmup, total=15) for t in range(16)]
        assert found[:, s].tolist() == pytest.approx(expected, abs=1e-6)


def test_each_epoch_shows_every_image_once():
    stream = torch.cat([*islice(batches(10, 4, seed=0), 15)])
    assert [sorted(epoch.tolist()) for epoch in stream.split(10)] == [list(range(10))] * 6
    assert len({tuple(epoch.tolist()) for epoch in stream.split(10)}) == 6
    (all_at_once,) = islice(batches(10, 64, seed=0), 1)
    assert sorted(all_at_once.tolist()) == list(range(10))


def test_separable_data_is_separated():
    data = blobs(60, apart=20.0)
    layers = sgd_sweep(*data, [PLAIN], classes=3, seed=0)
    logits = data.features_NF @ layers.weight_SYF[0].T + layers.bias_SY[0]
    assert torch.equal(logits.argmax(1), data.labels_N)


def test_of_equal_settings_the_first_is_selected():
    train, validation = blobs(60, apart=20.0), blobs(30, seed=1, apart=20.0)
    settings = [replace(PLAIN, lr=0.0), replace(PLAIN, batch_size=16), PLAIN]
    found = select(train, validation, settings, classes=3, seed=0)
    assert found.scores_S.tolist() == pytest.approx([1 / 3, 1, 1])
    assert found.setting == settings[1]


def test_the_mean_over_classes_may_decide():
    # without training all answers are class 0
    validation = Labelled(torch.zeros(4, 4), torch.tensor([0, 0, 0, 2]))
    idle = [replace(PLAIN, lr=0.0)]
    assert select(blobs(30), validation, idle, classes=3, seed=0).scores_S.tolist() == [0.75]
    assert select(blobs(30), validation, idle, classes=3, seed=0, per_class=True).scores_S.tolist() == [0.5]


def test_the_selected_setting_is_trained_again_on_both_parts():
    train, validation = blobs(30), blobs(15, seed=1)
    settings = [replace(PLAIN, lr=lr) for lr in (0.0, 0.1)]
    layers, selection = tuned_sgd(train, validation, settings, classes=3, seed=0)
    assert selection.setting == settings[1]
    both = Labelled(*(torch.cat(pair) for pair in zip(train, validation, strict=True)))
    weight, bias = by_torch(both, settings[1], seed=0)
    assert torch.allclose(layers.weight_SYF, weight[None], atol=1e-5)
    assert torch.allclose(layers.bias_SY, bias[None], atol=1e-5)


def test_progress_goes_from_nothing_to_all():
    heard = []
    settings = [PLAIN, replace(PLAIN, epochs=2), replace(PLAIN, batch_size=30)]
    sgd_sweep(
        *blobs(30), settings, classes=3, seed=0, advance=lambda done, total: heard.append((done, total))
    )
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)
    # 4 epochs of 30 images in batches of 8, half of it, and 4 batches of all
    assert heard[-1] == (15 + 8 + 4, 15 + 8 + 4)


@pytest.mark.parametrize(
    ("labels", "settings", "message"),
    [
        ([0, 3], [PLAIN], "from 0 to 2"),
        ([], [PLAIN], "from 0 to 2"),
        ([0, 1], [], "at least one epoch"),
        ([0, 1], [replace(PLAIN, batch_size=0)], "at least one epoch"),
    ],
)
def test_what_cannot_be_trained_is_refused(labels, settings, message):
    with pytest.raises(ValueError, match=message):
        sgd_sweep(torch.ones(len(labels), 2), torch.tensor(labels), settings, classes=3, seed=0)
