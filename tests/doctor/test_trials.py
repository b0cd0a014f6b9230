from dataclasses import replace

import torch
from tests.doctor.conftest import CPU

import semppl.doctor.trials as module
from semppl.config import DataConfig
from semppl.doctor.probe import Steps


def test_a_cpu_is_measured_at_two_batches(make_trial, npz):
    said = []
    probed = make_trial(npz, said).probe()
    assert probed.few.images == 2
    assert probed.steps.images in (4, 8, 16)
    assert probed.largest == 48
    assert not probed.refused
    assert probed.loader is None
    assert said[0] == "a step of 2 images"


def test_of_files_the_reading_and_the_device_are_measured_alone(make_trial, class_folders, monkeypatch):
    monkeypatch.setattr(module, "SHORT_SECONDS", 0.05)
    data = DataConfig(labels_per_class=2, feed="streaming", workers=0)
    probed = make_trial(class_folders, data=data, batch_size=8).probe()
    assert probed.loader > 0
    assert probed.device > 0


def fake(monkeypatch, attempts):
    """A device whose attempts are made up; the probe itself takes a second for each image."""
    monkeypatch.setattr(module.Trial, "attempt", lambda self, batch, **how: attempts(batch))

    def probed(config, dataset, device, work):
        return Steps(config.batch_size, (float(config.batch_size),), 0.0, 10 * config.batch_size), None, None

    monkeypatch.setattr(module, "tried", probed)


def test_a_slow_cpu_takes_few_images_and_its_memory_decides(make_trial, npz, monkeypatch):
    # 2 seconds for 2 images
    fake(monkeypatch, lambda batch: Steps(batch, (float(batch),), 0.0, 10 * batch))
    monkeypatch.setattr(module, "free_memory", lambda device: 125)
    probed = make_trial(npz).probe()
    assert probed.steps.images == 4
    # 0.8 × 125 bytes, 10 for each image
    assert (probed.largest, probed.refused) == (8, True)


def test_a_quick_cpu_takes_more_images_until_they_promise_to_take_too_long(
    make_trial, npz, monkeypatch, flags
):
    # an eighth of 2 seconds may go by; 0.1 whatever the number, and 0.01 for each image
    tried = []

    def attempts(batch):
        tried.append(batch)
        return Steps(batch, (0.1 + 0.01 * batch,), 0.0, 100 + batch)

    fake(monkeypatch, attempts)
    monkeypatch.setattr(module, "free_memory", lambda device: 10**6)
    assert flags.seconds == 2.0
    probed = make_trial(npz, batch_size=48).probe()
    # 4 × 0.12 are too much already
    assert tried == [2]
    assert probed.steps.images == 4
    tried.clear()
    trial = make_trial(npz, batch_size=48)
    probed = replace(trial, flags=replace(flags, seconds=4.0)).probe()
    # 0.48 of 0.5, then 0.42, and 0.58 for all 48
    assert tried == [2, 8, 32]
    assert (probed.few.images, probed.steps.images) == (2, 32)
    tried.clear()
    probed = replace(trial, flags=replace(flags, seconds=40.0)).probe()
    assert tried == [2, 8, 32, 48]
    assert probed.steps.images == 48


def test_a_gpu_doubles_until_a_tenth_of_its_memory_would_not_stay_free(make_trial, npz, monkeypatch):
    fake(monkeypatch, lambda batch: Steps(batch, (1.0,), 0.0, 10 * batch))
    monkeypatch.setattr(module, "free_memory", lambda device: 350)
    said = []
    trial = replace(make_trial(npz, said), device=torch.device("cuda"))
    probed = trial.probe()
    assert said == ["do 16 images fit?", "do 32 images fit?", "3 steps of 16 images"]
    assert (probed.largest, probed.refused, probed.steps.images) == (16, True, 16)


def test_a_batch_between_two_doublings_is_tried_itself(make_trial, npz, monkeypatch):
    fake(monkeypatch, lambda batch: Steps(batch, (1.0,), 0.0, 10 * batch))
    monkeypatch.setattr(module, "free_memory", lambda device: 350)
    monkeypatch.setattr(module, "_START", 16)
    said = []
    trial = replace(make_trial(npz, said, batch_size=24), device=torch.device("cuda"))
    assert trial.probe().largest == 24
    assert said[:3] == ["do 16 images fit?", "do 32 images fit?", "do 24 images fit?"]


def test_no_time_is_left_for_more_than_the_runs_batch(make_trial, npz, monkeypatch, flags):
    fake(monkeypatch, lambda batch: Steps(batch, (1.0,), 0.0, batch))
    monkeypatch.setattr(module, "free_memory", lambda device: 350)
    monkeypatch.setattr(module, "_START", 4)
    trial = replace(make_trial(npz), device=torch.device("cuda"), flags=replace(flags, seconds=0.0))
    probed = trial.probe()
    assert (probed.largest, probed.refused) == (16, False)


def test_a_gpu_whose_memory_is_too_small_halves(make_trial, npz, monkeypatch):
    fits = {16: None, 8: None, 4: Steps(4, (1.0,), 0.0, 40)}
    fake(monkeypatch, fits.get)
    monkeypatch.setattr(module, "free_memory", lambda device: 350)
    trial = replace(make_trial(npz), device=torch.device("cuda"))
    probed = trial.probe()
    assert (probed.largest, probed.steps.images) == (4, 4)


def test_a_device_on_which_nothing_fits_is_none(make_trial, npz, monkeypatch):
    fake(monkeypatch, lambda batch: None)
    trial = make_trial(npz)
    assert trial.probe() is None
    assert trial.device == CPU
    monkeypatch.setattr(module, "free_memory", lambda device: 350)
    assert replace(trial, device=torch.device("cuda")).probe() is None
