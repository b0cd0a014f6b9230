from dataclasses import asdict, replace

import pytest
from tests.report.table.conftest import configured, write_run

from semppl.report.collect import collect
from semppl.report.table.method import INIT_FROM, SUPERVISED, all_values, method_of, settings_of


def called(**method):
    return method_of(asdict(configured(method=method)))


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ({"positives": 0}, "ReLICv2"),
        ({"alpha": 0.0}, "ReLICv2"),
        ({"objective": "simclr", "positives": 0}, "SimCLR"),
        ({"objective": "byol", "positives": 0, "labels": "oracle"}, "BYOL"),
        ({}, "SemPPL"),
        ({"objective": "simclr"}, "SemPPL on SimCLR"),
        ({"objective": "byol", "labels": "given"}, "SemPPL on BYOL − pseudo-labels"),
        ({"labels": "given"}, "SemPPL − pseudo-labels"),
        ({"labels": "oracle"}, "SemPPL, oracle labels"),
    ],
)
def test_names(method, name):
    assert called(**method).name == name


def test_order():
    wanted = [
        SUPERVISED,
        called(objective="simclr", positives=0),
        called(objective="byol", positives=0),
        called(positives=0),
        called(objective="simclr"),
        called(objective="byol"),
        called(),
        called(labels="given"),
        called(labels="oracle"),
    ]
    orders = [each.order for each in wanted]
    assert orders == sorted(set(orders))
    assert [each.saw_labels for each in wanted] == [False] * 4 + [True] * 5


def test_an_empty_configuration_has_the_defaults():
    assert method_of({}).name == "SemPPL"
    assert all_values({"method": {"k": 7}})["method.k"] == 7
    assert all_values({})["method.k"] == 1


def settings(path, config):
    return settings_of(collect(write_run(path, config, {})), method_of(asdict(config)))


def test_seeds_machines_and_the_place_of_the_data_make_no_other_row(tmp_path):
    one = configured(seed=0, split_seed=3)
    other = replace(configured(seed=1, split_seed=4), device="cuda", log_every=7, source="/elsewhere/c.npz")
    assert settings(tmp_path / "a", one) == settings(tmp_path / "b", other)
    assert settings(tmp_path / "c", configured(method={"k": 2})) != settings(tmp_path / "d", one)


def test_labels_count_only_where_they_reach_training(tmp_path):
    one = {"per_class": 400, "method": {"positives": 0, "minimum_votes": 3}}
    other = {"per_class": 4, "method": {"positives": 0, "alpha": 0.5}}
    assert settings(tmp_path / "a", configured(**one)) == settings(tmp_path / "b", configured(**other))
    few, many = configured(per_class=4), configured(per_class=400)
    assert settings(tmp_path / "c", few) != settings(tmp_path / "d", many)


def test_without_positives_it_does_not_matter_how_they_came_to_count_nothing(tmp_path):
    none, unweighed = configured(method={"positives": 0}), configured(method={"alpha": 0.0})
    assert settings(tmp_path / "a", none) == settings(tmp_path / "b", unweighed)
    assert "method.positives" in settings(tmp_path / "c", configured())


def test_what_an_older_version_did_not_write_had_its_default(tmp_path):
    whole = settings(tmp_path / "a", configured())
    path = write_run(tmp_path / "b", configured(), {})
    text = (path / "config.yaml").read_text()
    assert "  vote_power: 0.0\n" in text
    (path / "config.yaml").write_text(text.replace("  vote_power: 0.0\n", ""))
    assert settings_of(collect(path), method_of(asdict(configured()))) == whole


def test_a_run_from_before_there_were_masks_had_none(tmp_path):
    def masked(name, masks):
        config = configured()
        return settings(tmp_path / name, replace(config, data=replace(config.data, masks=masks)))

    assert masked("a", None) == masked("b", "none")
    assert masked("c", "photos.masks") != masked("d", "none")


def test_of_labels_alone_the_network_counts(tmp_path):
    found = []
    wide = replace(configured(), net=replace(configured().net, width=2.0))
    for i, config in enumerate((configured(), configured(method={"positives": 0}), wide)):
        found.append(settings_of(collect(write_run(tmp_path / str(i), config, {})), SUPERVISED))
    assert found[0] == found[1]
    assert found[2] == found[0] | {"net.width": "2.0"}


@pytest.mark.parametrize(
    ("content", "weights"),
    [
        (None, "none"),
        ('{"path": "/data/runs/first", "step": 9}', "first"),
        ('{"path": "runs/first/checkpoints/step-9.ckpt"}', "first/step-9.ckpt"),
        ('{"path": "weights.ckpt"}', "weights.ckpt"),
        ("{", "RUN"),
    ],
)
def test_weights_of_another_run_make_another_row(tmp_path, content, weights):
    run = collect(write_run(tmp_path, configured(), {}))
    if content is not None:
        (tmp_path / "started_from.json").write_text(content)
    assert settings_of(run, method_of(run.config))[INIT_FROM] == weights
    assert INIT_FROM not in settings_of(run, SUPERVISED), "which begins with random ones"
