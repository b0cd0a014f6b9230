import pytest

from semppl.report.table.columns import column_of, in_order, protocol_of, variant


@pytest.mark.parametrize(
    ("file", "flags", "protocol"),
    [
        ("knn", {}, "knn"),
        ("linear-sgd", {}, "linear-sgd"),
        ("linear-sgd", {"name": ""}, "linear-sgd"),
        ("linear-sgd", {"name": "sgd"}, "linear"),
        ("linear-sgd-x", {}, "linear-sgd"),
        ("finetune-c95", {"name": "c95"}, "finetune"),
        ("supervised-l40", {"name": "l40"}, "supervised"),
        ("fit", {}, None),
        ("knns", {}, None),
        ("transfer", {"name": ""}, None),
    ],
)
def test_the_protocol_by_the_name_of_the_file(file, flags, protocol):
    assert protocol_of(file, flags) == protocol


@pytest.mark.parametrize(
    ("protocol", "flags", "column"),
    [
        ("knn", {"protocol": ["knn"], "confident": 0.9, "epochs": 5}, "k-NN"),
        ("knn", {"k": 5}, "k-NN with `--k 5`"),
        ("finetune", {"k": 5, "name": "x", "seeds": 3, "sure": 0.9}, "fine-tuned"),
        ("finetune", {"confident": 0.95}, "fine-tuned with `--confident 0.95`"),
        ("finetune", {"consistency": True, "sure": 0.9}, "fine-tuned with `--consistency --sure 0.9`"),
        ("linear", {"network": "target"}, "linear with `--network target`"),
        ("linear", {"labels_per_class": 4, "split_seed": 1, "labels": "all"}, "linear"),
        ("supervised", {"epochs": 7}, "fine-tuned"),
        ("supervised", {"consistency": True, "epochs": 7}, "fine-tuned with `--epochs 7 --consistency`"),
        ("supervised", {"consistency": True, "network": "target"}, "fine-tuned with `--consistency`"),
    ],
)
def test_flags_that_concern_a_protocol_make_another_column(protocol, flags, column):
    assert column_of(protocol, flags) == column


def test_labels_alone_keep_their_flags_for_the_row():
    assert variant("supervised", {"epochs": 7, "network": "target"}) == ["--epochs", "7"]


def test_order():
    wanted = ["k-NN", "linear", "linear by SGD", "fine-tuned", "fine-tuned with `--consistency`"]
    assert in_order(set(wanted)) == wanted
