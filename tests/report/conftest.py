"""Run directories made by hand, as the verbs write them; without torch."""

import json

import numpy as np
import pytest
import yaml
from PIL import Image, ImageDraw

EVIL_CLASS = "<script>alert(1)</script>"
EVIL_FILE = '"><img src=x onerror=alert(1)>.jpg'
# as the file system gives a name that is no UTF-8
BYTES_FILE = "caf\udce9.jpg"
CLASSES = (EVIL_CLASS, "dog", "owl & <b>fox</b>")
BALLOTS = 4


def metrics_rows(count=20, *, epochs=10.0, known=True, ballots=BALLOTS):
    """Lines whose pseudo-labels get better: of 80 images 20 have each number of votes."""
    rows = []
    for i in range(count):
        done = (i + 1) / count
        votes = [0, *[20] * ballots]
        right = [0, *[round(20 * done * v / ballots) for v in range(1, ballots + 1)]]
        row = {
            "step": 5 * (i + 1),
            "epoch": epochs * done,
            "lr": 0.1 * (1 - done) + 0.001,
            "loss/total": 4 / (i + 1) + 0.5,
            "loss/augmentation": 2 / (i + 1) + 0.5,
            "loss/semantic": 5 / (i + 1) + 1.0,
            "pseudo/votes": votes,
            "pseudo/tie_rate": 0.1,
            "images_per_second": 1000.0,
            "data_wait": 0.02,
        }
        if known:
            row |= {"pseudo/right_by_votes": right, "pseudo/known_by_votes": votes}
            row["pseudo/accuracy"] = sum(right) / sum(votes)
        if i % 5 == 4:
            row |= {"features/std": 0.5 + 0.3 * done, "features/effective_rank": 8 + 20 * done}
            row["knn/leave_one_out"] = 0.5 + 0.4 * done
        rows.append(row)
    return rows


def tile(label, seed, side=64):
    """A picture whose class can be seen."""
    rng = np.random.default_rng(seed)
    low, high = np.array(((40, 60, 90), (90, 60, 40), (50, 90, 60))[label % 3]), rng.integers(120, 250, 3)
    ramp = np.linspace(0, 1, side)[None, :, None] * np.linspace(0.4, 1, side)[:, None, None]
    image = Image.fromarray((low + ramp * (high - low)).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    colour = tuple(int(c) for c in rng.integers(100, 256, 3))
    x, y = (int(v) for v in rng.integers(6, 22, 2))
    box = (x, y, x + 36, y + 36)
    (draw.ellipse, draw.rectangle, draw.pieslice)[label % 3](
        *((box, 30, 300) if label % 3 == 2 else (box,)), fill=colour
    )
    return image


def write_sheets(folder, prefix, labels, *, side=64, columns=32, quality=80, noise=False):
    """Sheets of thumbnails and their description."""
    per_sheet = columns * columns
    sheets = []
    for number, start in enumerate(range(0, len(labels), per_sheet)):
        part = labels[start : start + per_sheet]
        rows = -(-len(part) // columns)
        sheet = Image.new("RGB", (columns * side, rows * side))
        for i, label in enumerate(part):
            sheet.paste(tile(label, start + i, side), (side * (i % columns), side * (i // columns)))
        if noise:
            pixels = np.asarray(sheet).astype(int) + np.random.default_rng(number).integers(
                -110, 111, (*sheet.size[::-1], 3)
            )
            sheet = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
        name = f"{prefix}-{number}.webp"
        sheet.save(folder / name, "WEBP", quality=quality, method=0)
        sheets.append(name)
    return {"side": side, "columns": columns, "per_sheet": per_sheet, "sheets": sheets}


def write_exhibit(path, *, classes=CLASSES, labelled=12, sampled=60, gallery=30, queue=True, noise=False):
    """exhibit/ of a run; the first sampled image has the evil name, the second one that is no UTF-8."""
    folder = path / "exhibit"
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    total, count = labelled + sampled, len(classes)
    kinds = [int(k) for k in rng.integers(0, count, total)]
    names = [f"photos/{i:05d}.jpg" for i in range(total)]
    names[labelled], names[labelled + 1] = EVIL_FILE, BYTES_FILE
    votes = [int(v) for v in rng.integers(1, BALLOTS + 1, sampled)]
    vote = [kinds[labelled + n] if rng.random() < 0.8 else int(rng.integers(count)) for n in range(sampled)]
    vote[0], votes[0] = 0, BALLOTS
    angle = np.array([2 * np.pi * kinds[labelled + n] / count for n in range(sampled)])
    places = np.stack([np.cos(angle), np.sin(angle)], 1) + rng.normal(0, 0.25, (sampled, 2))
    cards = []
    for n in range(min(gallery, sampled)):
        ballots = [vote[n]] * votes[n] + [int(k) for k in rng.integers(0, count, BALLOTS - votes[n])]
        voters = [[[int(rng.integers(-1, labelled)), round(float(rng.random()), 3)]] for _ in ballots]
        positives = [int(t) for t in rng.integers(0, labelled, 3)]
        cards.append({"of": n, "ballots": ballots, "voters": voters, "positives": positives})
    right = [None if n % 7 == 3 else int(vote[n] == kinds[labelled + n]) for n in range(sampled)]
    content = {
        "version": 1,
        "step": 100,
        "epoch": 10.0,
        "classes": list(classes),
        "ballots": BALLOTS,
        "minimum_votes": 2,
        "k": 1,
        "tiles": write_sheets(folder, "tiles", kinds, noise=noise),
        "images": {
            "name": names,
            "label": [kinds[t] if t < labelled else -1 for t in range(total)],
            "role": ["labelled" if t < labelled else "unlabelled" for t in range(total)],
        },
        "sample": {
            "image": list(range(labelled, total)),
            "vote": vote if queue else [-1] * sampled,
            "votes": votes if queue else [0] * sampled,
            "tied": [int(v == 2) for v in votes] if queue else [0] * sampled,
            "right": right if queue else [None] * sampled,
            "x": [round(float(x), 4) for x in places[:, 0]],
            "y": [round(float(y), 4) for y in places[:, 1]],
        },
        "explained": [0.31, 0.12],
        "gallery": cards if queue else [],
    }
    (folder / "exhibit.json").write_text(json.dumps(content))
    features = np.concatenate([places, rng.normal(0, 0.1, (sampled, 6))], 1).astype(np.float16)
    np.savez(folder / "features.npz", features_NP=features)


def write_advice(path, classes=CLASSES):
    """label_next.csv and suspicious_labels.csv with their thumbnails; names as CSV quotes them."""
    evil = '"' + EVIL_FILE.replace('"', '""') + '"'
    lines = [
        "path,voted,vote_share,cosine,reason",
        f"{evil},{classes[0]},0.2630,0.5556,stands for 2.3 % of the images",
    ]
    lines += [f"photos/{i:05d}.jpg,dog,0.3{i},0.6336,like one with a label" for i in range(20, 26)]
    (path / "label_next.csv").write_text("\n".join(lines) + "\n")
    suspicious = f"path,label,voted,vote_share\nphotos/00003.jpg,dog,{classes[0]},0.8533\n"
    (path / "suspicious_labels.csv").write_text(suspicious)
    names = [EVIL_FILE, *[f"photos/{i:05d}.jpg" for i in range(20, 26)], "photos/00003.jpg"]
    tiles = write_sheets(path / "exhibit", "advice", [0, 1, 1, 1, 1, 1, 1, 1])
    (path / "exhibit" / "advice.json").write_text(json.dumps({"version": 1, "tiles": tiles, "name": names}))


def evaluation(value=90.0, *, classes=CLASSES, protocol="k = 5; 12 labels", confusion=None):
    """As evaluate writes it."""
    confusion = confusion or [[8, 1, 1], [0, 9, 1], [2, 0, 8]]
    metrics = {"top1": value / 100, "confusion": confusion}
    return {
        "protocol": protocol,
        "numbers": [
            {"name": "top-1", "value": value, "low": value - 4, "high": value + 3, "deviation": None},
            {"name": "mean per class", "value": value - 1, "low": None, "high": None, "deviation": None},
        ],
        "settings": {"k": 5, "temperature": 0.1},
        "details": {"metrics": metrics},
        "data": "photos",
        "data_sha256": "ab" * 32,
        "classes": list(classes),
    }


def journey(classes=CLASSES):
    """As fit writes it."""
    ways = [("SemPPL", "linear", 88.0), ("SemPPL", "k-NN", 86.5), ("supervised only", "own head", 71.0)]
    rows = [
        {
            "name": name,
            "way": way,
            "accuracy": value,
            "interval_95": [value - 4, value + 3],
            "validation_accuracy": 90.0,
            "training_seconds": 45.0,
        }
        for name, way, value in ways
    ]
    return {
        "verdict": "SemPPL helped: 88.0 % (linear) on 30 test images, against 71.0 % by another",
        "protocol": "accuracy in per cent (95 % interval) on 30 test images; 12 labels for training",
        "rows": rows,
        "numbers": [
            {"name": f"{row['name']}, {row['way']}", "value": row["accuracy"], "low": None, "high": None}
            for row in rows
        ],
        "model_decides_by": "linear",
        "votes": [
            {"threshold": 0.0, "precision": 0.8, "coverage": 1.0, "count": 10},
            {"threshold": 0.9, "precision": 1.0, "coverage": 0.4, "count": 4},
            {"threshold": 1.0, "precision": None, "coverage": 0.0, "count": 0},
        ],
        "classes": list(classes),
        "confusion": [[8, 1, 1], [0, 9, 1], [2, 0, 8]],
    }


def bare_run(path, *, seed=0, **changes):
    """A run that has just begun: its configuration alone."""
    path.mkdir(parents=True, exist_ok=True)
    config = {
        "source": "/data/photos",
        "epochs": 10.0,
        "batch_size": 16,
        "seed": seed,
        "device": "auto",
        "data": {"split_seed": seed, "labels": "/data/labels.csv", "workers": None},
        "method": {"positives": 3, "k": 1},
    }
    for name, value in changes.items():
        room, _, key = name.rpartition("__")
        (config[room] if room else config)[key] = value
    (path / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def write_metrics(path, rows):
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def measured_run(path, value=90.0, *, seed=0, protocol="k = 5; 12 labels", **changes):
    """A run with training and one evaluation."""
    bare_run(path, seed=seed, **changes)
    write_metrics(path, metrics_rows())
    (path / "evaluations").mkdir(exist_ok=True)
    (path / "evaluations" / "knn.json").write_text(json.dumps(evaluation(value, protocol=protocol)))
    environment = {
        "python": "3.11",
        "device": "cpu",
        "data_sha256": "ab" * 32,
        "packages": {"semppl": "0.1.0"},
    }
    (path / "environment.json").write_text(json.dumps(environment))
    return path


def whole_run(path, **exhibit):
    """Everything that fit leaves."""
    measured_run(path)
    (path / "fit.yaml").write_text("minutes: null\n")
    (path / "evaluations" / "fit.json").write_text(json.dumps(journey()))
    split = ["path,label,role"]
    split += [f"photos/{i:05d}.jpg,{CLASSES[i % 3]},labelled" for i in range(12)]
    split += [f"photos/{i:05d}.jpg,,unlabelled" for i in range(12, 92)]
    (path / "split.csv").write_text("\n".join(split) + "\n")
    (path / "predictions.csv").write_text("path,label,probability\nphotos/00013.jpg,dog,0.9\n")
    (path / "bad_files.csv").write_text("path,reason\nempty.png,empty file\n")
    write_exhibit(path, **exhibit)
    write_advice(path)
    return path


@pytest.fixture
def run_path(tmp_path):
    """See `whole_run`."""
    return whole_run(tmp_path / "run")
