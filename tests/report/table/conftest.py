"""Run directories with a whole configuration and evaluations, as a table of results needs them."""

import json
from dataclasses import asdict, replace
from random import Random

import yaml
from tests.report.conftest import BALLOTS, metrics_rows, write_metrics

from semppl.config import Config
from semppl.protocols.settings import EvaluateFlags
from semppl.report.collect import collect
from semppl.report.table.measure import measured
from semppl.report.table.sections import sections

CLASSES = [str(i) for i in range(10)]
BASE = Config(source="/data/cifar.npz", epochs=10.0, batch_size=16)


def configured(*, seed=0, per_class=400, split_seed=None, method=(), **changes):
    """A configuration with changes."""
    data = replace(BASE.data, labels_per_class=per_class, split_seed=split_seed)
    return replace(BASE, seed=seed, data=data, method=replace(BASE.method, **dict(method)), **changes)


def outcome(value, *, labels=4000, protocol="as usual", test="cd" * 32, step=100, **flags):
    """As evaluate writes it; labels as a whole mapping, or how many there were."""
    named = {"count": labels, "which": "given", "choosing": 0} if isinstance(labels, int) else labels
    content = {
        "protocol": protocol,
        "numbers": [{"name": "top-1", "value": value}, {"name": "top-5", "value": 99.0}],
        "settings": {},
        "details": {},
        "data": "cifar.npz",
        "data_sha256": "ab" * 32,
        "classes": CLASSES,
        "split_sha256": "ef" * 32,
        "step": step,
        "seconds": 60.0,
        "flags": json.loads(json.dumps(asdict(EvaluateFlags(**flags)), default=str)),
        "test": {"kind": "test", "images": 1000, "sha256": test},
    }
    return content if named is None else content | {"labels": named}


def write_run(path, config, evaluations, *, rows=None):
    """Files that a run brings along from elsewhere: no checkpoint, no features, no data."""
    (path / "evaluations").mkdir(parents=True)
    (path / "config.yaml").write_text(yaml.safe_dump(json.loads(json.dumps(asdict(config)))))
    write_metrics(path, metrics_rows() if rows is None else rows)
    (path / "split.sha256").write_text(f"{'12' * 32}  split.csv\n")
    environment = {
        "python": "3.11",
        "device": "H200",
        "data_sha256": "ab" * 32,
        "packages": {"torch": "2.11"},
    }
    (path / "environment.json").write_text(json.dumps(environment))
    for name, content in evaluations.items():
        (path / "evaluations" / f"{name}.json").write_text(json.dumps(content))
    return path


def long_rows(seed, count=500, *, epochs=10.0):
    """Lines of metrics with speeds and pseudo-labels of their own."""
    rows = metrics_rows(count, epochs=epochs)
    for row in rows:
        random = Random(f"{seed} {row['step']}")
        known = [0, *(random.randint(1, 99) for _ in range(BALLOTS))]
        row["images_per_second"] = random.uniform(1, 9)
        row["pseudo/known_by_votes"] = known
        row["pseudo/right_by_votes"] = [random.randint(0, count) for count in known]
    return rows


def numbers(path, config, evaluations, **more):
    """The measurements of a run that is written there."""
    found, problems = measured(collect(write_run(path, config, evaluations, **more)))
    assert not problems
    return found


def sections_of(path, *runs):
    """Of runs that are written there, each a configuration and its evaluations."""
    found = []
    for i, (config, evaluations) in enumerate(runs):
        found += numbers(path / str(i), config, evaluations)
    return sections(found)
