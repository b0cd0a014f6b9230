"""What a model says about images. Shapes: N images, K neighbours, F features, Y classes."""

import csv
import io
from collections.abc import Callable, Collection, Iterable, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

import torch
from rich.console import Console
from torch import Tensor

from semppl.core.counted import counted
from semppl.core.errors import RunError, UserError
from semppl.core.rundir import is_stream, write_text, written_at
from semppl.data.dataset import evenly
from semppl.data.files import check_file, told_apart
from semppl.data.images import ImageFiles, Images
from semppl.data.paths import Paths
from semppl.data.scan import Bad, scan
from semppl.deploy.load import load
from semppl.deploy.model import Model, load_model
from semppl.deploy.teach import read_labels, taught
from semppl.evaluate.bank import TEMPERATURE, Answer
from semppl.evaluate.features import whole_batches
from semppl.train.device import choose_device, memory_layout
from semppl.train.progress import StageProgress

NEAREST: Final = 3
# features that are kept for advice; memory does not grow beyond them
_KEPT: Final = 20_000
_NAMED: Final = 10


@dataclass(frozen=True)
class Predictions:
    """For each image a label, how sure it is, and who voted."""

    labels_N: Tensor
    probability_N: Tensor
    """Of the label, by the classifier; by the votes where they decide."""
    answer: Answer
    """The votes of the nearest labelled images."""
    share_N: Tensor
    """Share of the votes that the label has: less than the winner's where votes and classifier disagree."""
    sample_S: Tensor
    """Positions of the images whose features are kept."""
    features_SF: Tensor

    def of(self, kept_K: Tensor) -> "Predictions":
        """Those of some of the images, which are given in rising order."""
        place_N = torch.full((len(self.labels_N),), -1).index_copy(0, kept_K, torch.arange(len(kept_K)))
        sample_S = place_N[self.sample_S]
        return Predictions(
            labels_N=self.labels_N[kept_K],
            probability_N=self.probability_N[kept_K],
            answer=Answer(*(part[kept_K] for part in self.answer)),
            share_N=self.share_N[kept_K],
            sample_S=sample_S[sample_S >= 0],
            features_SF=self.features_SF[sample_S >= 0],
        )


@torch.inference_mode()
def predict(
    model: Model,
    images: Images,
    *,
    workers: int | None = None,
    advance: Callable[[int], None] | None = None,
    problems: set[str] | None = None,
) -> Predictions:
    """Answers for all images; `advance` hears how many are done, `problems` of files that cannot be read."""
    sample_S = evenly(torch.arange(len(images)), _KEPT)
    kept_N = torch.zeros(len(images), dtype=torch.bool)
    kept_N[sample_S] = True
    labels, probabilities, answers, features = [], [], [], []
    network = model.network
    done = 0
    for views in whole_batches(
        images,
        size=network.preprocessing.size,
        mean_3=network.mean_3,
        std_3=network.std_3,
        prepare=network.preprocessing.prepare,
        batch_size=256,
        workers=workers,
        problems=problems,
    ):
        features_BF = network.features(views).float()
        probability_BY = network.logits(features_BF).float().softmax(1).cpu()
        answer = model.bank.ask(features_BF.cpu())
        best = (answer.share_N, answer.labels_N) if model.decides == "k-NN" else probability_BY.max(1)
        probabilities.append(best[0])
        labels.append(best[1])
        answers.append(answer)
        features.append(features_BF.cpu()[kept_N[done : done + len(views)]])
        done += len(views)
        if advance is not None:
            advance(done)
    labels_N = torch.cat(labels)
    answer = Answer(*(torch.cat(parts) for parts in zip(*answers, strict=True)))
    return Predictions(
        labels_N=labels_N,
        probability_N=torch.cat(probabilities),
        answer=answer,
        share_N=share_of(labels_N, answer, model.bank.labels_L),
        sample_S=sample_S,
        features_SF=torch.cat(features),
    )


def readable(images: Images, problems: Collection[str]) -> Tensor:
    """Places of the images that are not among the files of `problems`: grey ones were seen for those."""
    lost = {told_apart(problem)[0] for problem in problems}
    if not lost or isinstance(images, Tensor):
        return torch.arange(len(images))
    return torch.tensor([i for i in range(len(images)) if images.path(i) not in lost], dtype=torch.long)


def share_of(
    labels_N: Tensor, answer: Answer, bank_labels_L: Tensor, temperature: float = TEMPERATURE
) -> Tensor:
    """Share of the votes for given labels, weighed as the bank weighs them."""
    weight_NK = torch.softmax(answer.cosine_NK.double() / temperature, dim=1)
    agrees_NK = bank_labels_L[answer.near_NK] == labels_N[:, None]
    return (weight_NK * agrees_NK).sum(1).float()


def prediction_table(names: Sequence[str], said: Predictions, model: Model) -> str:
    """The text of predictions.csv."""
    count = min(NEAREST, model.bank.k)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    nearest = [f"nearest_{rank + 1}" for rank in range(count)]
    writer.writerow(("path", "label", "probability", "vote_share", "cosine", *nearest))
    columns = (
        said.labels_N.tolist(),
        said.probability_N.tolist(),
        said.share_N.tolist(),
        said.answer.cosine_NK[:, 0].tolist(),
        said.answer.near_NK[:, :count].tolist(),
    )
    for name, label, probability, share, cosine, near in zip(names, *columns, strict=True):
        writer.writerow(
            (
                name,
                model.classes[label],
                f"{probability:.4f}",
                f"{share:.4f}",
                f"{cosine:.4f}",
                *(model.bank_names[position] for position in near),
            )
        )
    return buffer.getvalue()


def predict_folder(
    model_folder: Path,
    images: Path,
    out: Path | None,
    *,
    device: str,
    workers: int | None,
    overwrite: bool,
    console: Console,
    labels: Path | None = None,
) -> str | None:
    """The verb `predict`: a table of a folder's images, written to `out` or given back.

    With `labels`, a table of images in the folder or class folders elsewhere, any network answers.
    """
    if out is not None:
        _check_place(out, overwrite=overwrite)
    place, before = choose_device(device), tuple[str, ...]()
    if labels is None:
        model = load_model(model_folder).to(place)
    else:
        network = load(model_folder, place).to(memory_format=memory_layout(place))
        known = read_labels(images, labels, workers)
        before = known.notes
        _say(before, console)
        if labels.is_dir():  # those of a table are among the images, and named with them
            _say_left_out(known.bad, console)
        model = taught(network, known, workers=workers, console=console)
    files, bad, notes = _found(images, workers)
    damaged: set[str] = set()
    with StageProgress(console, "predicting", len(files)) as progress:
        said = predict(model, files, workers=workers, advance=progress.advance, problems=damaged)
    if damaged:
        kept_K = readable(files, damaged)
        files, said = files[kept_K], said.of(kept_K)
        bad = (*bad, *(_bad(problem, files.root) for problem in sorted(damaged)))
    _require_some(images, files, bad)
    table = prediction_table(files.paths, said, model)
    _say_left_out(bad, console)
    _say([note for note in notes if note not in before], console)
    if out is None:
        return table
    try:
        write_text(out, table)
    except OSError as error:
        raise RunError(f"{out} cannot be written ({error.strerror}): choose another --out") from error
    _say([f"{counted(len(files), 'image')}: {out}"], console)
    return None


def _bad(problem: str, root: Path) -> Bad:
    """Named as scanning names it."""
    path, reason = told_apart(problem)
    return Bad(Path(path).relative_to(root).as_posix(), reason)


def _say_left_out(bad: Sequence[Bad], console: Console) -> None:
    _say([f"left out: {one.path}: {one.reason}" for one in bad[:_NAMED]], console)
    if len(bad) > _NAMED:
        _say([f"left out: {counted(len(bad) - _NAMED, 'more file')} that cannot be read"], console)


def _say(lines: Iterable[str], console: Console) -> None:
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)


def _check_place(out: Path, *, overwrite: bool) -> None:
    """Before all images are read."""
    try:
        if is_stream(out):
            return
        if out.exists() and not overwrite:
            raise UserError(f"{out} is there already: choose another --out, or use --overwrite")
        if out.is_dir():
            raise UserError(f"{out} is a folder: choose another --out")
        folder = written_at(out).absolute().parent
        if not folder.is_dir():
            raise UserError(f"{out}: no such folder to write to")
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"{out} cannot be written ({error.strerror}): choose another --out") from error


def _found(images: Path, workers: int | None) -> tuple[ImageFiles, tuple[Bad, ...], tuple[str, ...]]:
    """The images, files that cannot be read, and what else is to be said."""
    if images.is_file():
        facts = check_file(str(images))
        if facts.problem:
            raise UserError(f"{images}: not a readable image ({facts.problem})")
        return ImageFiles(images.parent, Paths([images.name])), (), ()
    found = scan(images, workers=workers)
    _require_some(images, found.paths, found.bad)
    notes = (f"{images}: {found.unread}",) if found.unread else ()
    return ImageFiles(images, found.paths), found.bad, notes


def _require_some(images: Path, found: Sized, bad: Sequence[Bad]) -> None:
    if not len(found):
        reason = f": {bad[0].reason}" if bad else ""
        raise UserError(f"{images}: {counted(len(bad), 'image')}, none of which can be read{reason}")
