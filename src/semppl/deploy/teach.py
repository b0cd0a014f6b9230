"""A model from a network and a few labelled images: nothing is trained but a linear layer.

Shapes: L labelled images, F features.
"""

from pathlib import Path

from rich.console import Console

from semppl.data.dataset import Dataset
from semppl.data.request import Request
from semppl.data.source import load_dataset
from semppl.deploy.model import Model, linear_head, scale_logits_
from semppl.deploy.network import Network
from semppl.evaluate.bank import build_bank
from semppl.evaluate.calibration import calibrate
from semppl.evaluate.features import extract_features
from semppl.evaluate.linear import fit_linear, left_out_logits
from semppl.train.progress import StageProgress


def read_labels(images: Path, labels: Path, workers: int | None) -> Dataset:
    """Labelled images: class folders of their own, or a table of some images in a folder. However many cannot
    be read, the others teach.
    """
    own = labels.is_dir()
    request = Request(
        source=str(labels if own else images),
        labels=None if own else str(labels),
        label_fraction=1.0 if own else None,
        memory=0,
        workers=workers,
        allow_unreadable=True,
    )
    return load_dataset(request)


def taught(network: Network, dataset: Dataset, *, workers: int | None, console: Console) -> Model:
    """The labelled images vote, and a linear classifier of their features decides, as sure of its answers as
    labels that were left out say it should be.
    """
    index_L = dataset.labelled_L
    labels_L, classes = dataset.labels_M[index_L], len(dataset.classes)
    how = network.preprocessing
    with StageProgress(console, "features of labelled images", len(index_L)) as progress:
        features_LF = extract_features(
            network.encoder,
            dataset.images[index_L],
            size=how.size,
            mean_3=network.mean_3,
            std_3=network.std_3,
            batch_size=256,
            workers=workers,
            prepare=how.prepare,
            advance=progress.advance,
        )
    device = network.mean_3.device
    fit = fit_linear(features_LF, labels_L, classes=classes, device=device)
    head = linear_head(fit.weight_YF, fit.bias_Y)
    left_out = left_out_logits(features_LF, labels_L, classes=classes, strength=fit.strength, device=device)
    if left_out is None:
        console.print(
            "probabilities: as the fit has them, for no label can be left out to check them", highlight=False
        )
    else:
        calibration = calibrate(*left_out)
        scale_logits_(head, calibration.scale)
        console.print(calibration.describe(), highlight=False, soft_wrap=True)
    return Model(
        network=Network(
            network.architecture,
            network.encoder,
            how,
            head=head.eval(),
            classes=dataset.classes,
        ).to(device),
        decides="linear",
        bank=build_bank(features_LF, labels_L, classes),
        bank_names=[dataset.names[i] for i in index_L.tolist()],
    )
