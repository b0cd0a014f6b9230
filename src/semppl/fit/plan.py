"""From the data and a time to a configuration, with every choice said aloud."""

from dataclasses import replace
from functools import partial
from typing import Final

import torch

from semppl.choices import Facts, choose_network, choose_queue, choose_votes, epochs_for, told
from semppl.config import Config
from semppl.core.counted import counted
from semppl.core.errors import UserError
from semppl.data.dataset import Dataset
from semppl.nets.pretrained import fitting_size
from semppl.train.build import normalisation
from semppl.train.estimate import estimate
from semppl.train.prepare import resolved_for

# of the given time: pre-training, the supervised baseline for as long, half as long for fine-tuning on the
# labels at most, for that on all images what is left then, and a rest for predictions and slow steps
PRETRAINING_SHARE: Final = 0.30
REST: Final = 0.10
_FEW_EPOCHS: Final = 20


def _imbalance(dataset: Dataset) -> float:
    counts = dataset.labels_M[dataset.labelled_L].bincount()
    return float(counts.max() / counts[counts > 0].min()) if len(counts) else 1.0


def planned(
    config: Config, dataset: Dataset, device: torch.device, minutes: float
) -> tuple[Config, list[str]]:
    """A resolved configuration and its choices in words.

    `--epochs` decides where the user gave it, and the minutes otherwise.
    """
    if minutes <= 0:
        raise UserError(f"--minutes is {minutes:g}: it must be above 0")
    resolved_for(replace(config, epochs=config.epochs or 1.0), dataset)  # what cannot work is refused
    facts = Facts(
        image_size=dataset.size,
        num_images=len(dataset.labels_M),
        num_labels=len(dataset.labelled_L),
        num_classes=len(dataset.classes),
        gpu=device.type == "cuda",
        grey=dataset.grey,
        imbalance=_imbalance(dataset),
        fitting=partial(fitting_size, config.net.encoder or ""),
    )
    config = choose_votes(config)
    # a step takes as long as its queue is, which does not depend on the number of epochs
    tried = choose_queue(replace(choose_network(config, facts), epochs=config.epochs or 1.0), facts)
    found = estimate(tried, dataset, device, fixed_batch=config.batch_size is not None)
    # the rate is that of the batch which fits
    config = choose_network(replace(config, batch_size=found.batch_size), facts)
    if not config.epochs:
        budget = minutes * PRETRAINING_SHARE
        epochs = epochs_for(budget, found.seconds_per_step, found.batch_size, facts.num_images)
        config = replace(config, epochs=epochs)
    config = resolved_for(choose_queue(config, facts), dataset)
    takes = config.total_steps(facts.num_images) * found.seconds_per_step / 60
    mean_3, std_3 = normalisation(config, dataset)
    lines = told(config, takes, mean_3.tolist(), std_3.tolist())
    if config.epochs < _FEW_EPOCHS:
        epochs_are = counted(f"{config.epochs:g}", "epoch is", "epochs are")
        lines.append(f"{epochs_are} few: expect little; a GPU or more --minutes would help")
    return config, lines
