"""What the user takes home: a model, a label for every image, and advice on labels.

Shapes: N images without a label, L images with one, S images whose features are kept.
"""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from semppl.core.labels import UNLABELLED
from semppl.core.rundir import RunDirectory, write_text
from semppl.deploy.model import Decides, Model, linear_head, load_model, save_model, scale_logits_
from semppl.deploy.network import Architecture, Network
from semppl.deploy.predict import Predictions, predict, prediction_table, readable
from semppl.evaluate.advice import label_next, suspicious
from semppl.evaluate.bank import Answer, build_bank
from semppl.fit.consistency import Course
from semppl.fit.sheet import Tile, sheet
from semppl.fit.tuning import Tuned
from semppl.fit.verdict import ON_ALL
from semppl.nets.heads import Projected
from semppl.protocols.desk import Desk
from semppl.train.exhibit import FOLDER, VERSION
from semppl.train.progress import StageProgress
from semppl.train.tiles import PER_SHEET, write_tiles

PREDICTIONS, NEXT, SUSPICIOUS = "predictions.csv", "label_next.csv", "suspicious_labels.csv"
# images worth a label that are named: two for each class, within these
_FEWEST, _MOST = 20, 200
_SHOWN: Final = 48
ADVICE: Final = "advice.json"
# share of the votes that another class must have before a label is called suspicious
_ACCUSING: Final = 0.5


def final_model(
    desk: Desk,
    online: Projected,
    decides: Decides,
    tuned: Tuned | None,
    course: Course | None = None,
    scale: float = 1.0,
    strength: float | None = None,
) -> Model:
    """The chosen way, fitted once more on all labels that were given, those for validation included; its
    logits times `scale`. A linear classifier has the inverse penalty `strength`, by default one that is
    chosen.
    """
    dataset, classes = desk.dataset, len(desk.dataset.classes)
    index_L = desk.given_L
    labels_L = desk.given_M[index_L]
    encoder: nn.Module = online.encoder
    head: nn.Module | None = None
    if decides == "fine-tuned" and tuned is not None:
        anew = tuned.once_more(desk, online, index_L, labels_L)
        encoder, head = anew.encoder, nn.Sequential(anew.hidden, anew.classifier)
    elif decides == ON_ALL and course is not None:
        taught = course.once_more(desk, online.encoder)
        encoder, head = taught.encoder, taught.classifier
    features_LF = desk.features(encoder, dataset.images[index_L])
    if head is None:
        fit = desk.linear(features_LF, labels_L, strength=strength)
        head = linear_head(fit.weight_YF, fit.bias_Y)
    scale_logits_(head, scale)
    network = Network(
        Architecture.of(desk.config.net),
        encoder.eval(),
        desk.preprocessing,
        head=head.eval(),
        classes=dataset.classes,
    )
    return Model(
        network=network,
        decides=decides,
        bank=build_bank(features_LF, labels_L, classes),
        bank_names=[dataset.names[i] for i in index_L.tolist()],
    ).to(desk.device)


def export(model: Model, folder: Path, desk: Desk) -> float:
    """Write the model, read it again and give the largest difference of its probabilities on some images."""
    save_model(model, folder)
    some = desk.dataset.images[desk.dataset.labelled_L[:64]]
    before = predict(model, some, workers=0)
    after = predict(load_model(folder).to(desk.device), some, workers=0)
    return float((before.probability_N - after.probability_N).abs().max())


def predict_rest(desk: Desk, model: Model, run: RunDirectory) -> tuple[Tensor, Predictions] | None:
    """predictions.csv for all images without a given label."""
    index_N = (desk.given_M == UNLABELLED).nonzero().squeeze(1)
    if grey := desk.dataset.unreadable:
        index_N = index_N[[desk.dataset.names[i] not in grey for i in index_N.tolist()]]
    if not len(index_N):
        return None
    images, damaged = desk.dataset.images[index_N], set[str]()
    with StageProgress(desk.console, "predicting", len(index_N)) as progress:
        said = predict(model, images, workers=desk.workers, advance=progress.advance, problems=damaged)
    if damaged:
        kept_K = readable(images, damaged)
        index_N, said = index_N[kept_K], said.of(kept_K)
        for problem in sorted(damaged):
            desk.say(f"left out: {problem}")
    if not len(index_N):
        return None
    names = [desk.dataset.names[i] for i in index_N.tolist()]
    write_text(run.path / PREDICTIONS, prediction_table(names, said, model))
    return index_N, said


def suggest(desk: Desk, model: Model, index_N: Tensor, said: Predictions, run: RunDirectory) -> list[int]:
    """label_next.csv and its picture; gives the places of the images that it names."""
    sample = said.sample_S
    answer = Answer(*(part[sample] for part in said.answer))
    count = min(max(_FEWEST, 2 * len(model.classes)), _MOST)
    chosen = label_next(answer, said.features_SF, model.bank, count=count)
    places = [int(index_N[sample[one.index]]) for one in chosen]
    rows = [
        (
            desk.dataset.names[place],
            model.classes[one.label],
            f"{one.share:.4f}",
            f"{one.cosine:.4f}",
            one.reason,
        )
        for place, one in zip(places, chosen, strict=True)
    ]
    header = ("path", "voted", "vote_share", "cosine", "reason")
    write_text(run.path / NEXT, _csv(header, rows))
    tiles = [
        Tile(place, f"{model.classes[one.label]}? {one.share:.0%}", one.reason)
        for place, one in zip(places, chosen, strict=True)
    ]
    _draw(desk, tiles, run.path / "label_next.png")
    return places


def suspect(desk: Desk, online: Projected, run: RunDirectory) -> tuple[list[int], float]:
    """suspicious_labels.csv and its picture: by the pre-trained encoder, not by one fitted to the labels.

    Gives the places of their images, and the share of all labels that the others' votes confirm: what a
    suspicion is worth.
    """
    index_L = desk.given_L
    features_LF = desk.features(online.encoder, desk.dataset.images[index_L])
    bank = build_bank(features_LF, desk.given_M[index_L], len(desk.dataset.classes))
    answer = bank.leave_one_out()
    found = [one for one in suspicious(bank, answer) if one.share >= _ACCUSING]
    names, classes = desk.dataset.names, desk.dataset.classes
    places = [int(index_L[one.index]) for one in found]
    rows = [
        (names[place], classes[one.given], classes[one.voted], f"{one.share:.4f}")
        for place, one in zip(places, found, strict=True)
    ]
    write_text(run.path / SUSPICIOUS, _csv(("path", "label", "voted", "vote_share"), rows))
    tiles = [
        Tile(place, classes[one.given], f"{classes[one.voted]}? {one.share:.0%}")
        for place, one in zip(places, found, strict=True)
    ]
    _draw(desk, tiles, run.path / "suspicious_labels.png")
    confirmed_L = (answer.labels_N == bank.labels_L)[bank.asked_L]
    return places, float(confirmed_L.float().mean()) if len(confirmed_L) else 0.0


def show_advice(desk: Desk, places: Sequence[int], run: RunDirectory) -> None:
    """Thumbnails of images that advice is about, each once, and at most a sheet of them: exhibit/advice.json.

    The list comes last and goes first, so where it is, its sheet is there and fits.
    """
    folder, shown = run.path / FOLDER, list(dict.fromkeys(places))[:PER_SHEET]
    folder.mkdir(exist_ok=True)
    (folder / ADVICE).unlink(missing_ok=True)
    images = desk.dataset.images[torch.tensor(shown, dtype=torch.long)]
    content = {
        "version": VERSION,
        "tiles": write_tiles(folder, "advice", images, workers=desk.workers),
        "name": [desk.dataset.names[place] for place in shown],
    }
    write_text(folder / ADVICE, json.dumps(content) + "\n")


def _draw(desk: Desk, tiles: Sequence[Tile], file: Path) -> None:
    if tiles:
        sheet(desk.dataset.images, tiles[:_SHOWN]).save(file)
    else:
        file.unlink(missing_ok=True)


def _csv(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue()
