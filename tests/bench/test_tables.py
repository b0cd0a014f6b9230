import io

from rich.console import Console

from semppl.bench.tables import tables

RESULT = {
    "machine": {"device": "a GPU"},
    "settings": {"encoder": "resnet50", "batch_size": 100},
    "step": {
        "speed": "graph",
        "ms": {"floor": 100.0, "relicv2": 104.0, "semppl": 105.0},
        "peak_mb": {"floor": 1000.0, "relicv2": 1100.0, "semppl": 1200.0},
        "images_per_second": 952.4,
        "semppl_over_relicv2": 105 / 104 - 1,
        "start_up_s": 33.0,
        "phases_ms": {"feed": 25.0, "backward": 75.0},
        "from_files": {"ms": 110.0, "images_per_second": 909.0, "files": 54, "workers": 16},
    },
    "agreement": {
        "neighbours": {"nearest_neighbours": 0.99999, "pseudo_labels": 1.0},
        "recording": {"sgd": {"recorded": 1e-7, "again": 0.0}},
        "teaching": {"long": {"recorded": 0.0, "again": 0.0}, "short": {"recorded": 3e-6, "again": 2e-6}},
        "crops": {"largest_difference": 1.0, "share_equal": 0.9},
        "step_waits_for_nothing": True,
    },
    "scaling": [
        {"factor": "queue", "value": 1000, "ms": 1.0, "peak_mb": 3.0},
        {"factor": "queue", "value": 10_000, "ms": 10.0, "peak_mb": 30.0},
        {"factor": "views", "value": 2, "ms": 1.0, "peak_mb": None},
    ],
    "photometric": {
        "batch": 256,
        "size": 96,
        "threads": 2,
        "odd": {"ours_ms": 50.0, "torchvision_ms": 200.0, "times_faster": 4.0},
        "even": {"ours_ms": 60.0, "torchvision_ms": 300.0, "times_faster": 5.0},
    },
    "sweep": {
        "settings": 1000,
        "images": 5000,
        "features": 512,
        "classes": 10,
        "threads": 2,
        "updates": 612_000,
        "seconds": 41.26,
        "best_accuracy": 90.0,
        "median_accuracy": 71.25,
    },
    "lightly": {
        "version": "1.6",
        "workers": 16,
        "simclr": {"step_ms": 47.0, "transform_images_per_second": 1781.0, "images_per_second": 1836.0},
        "byol": {"step_ms": 57.0, "transform_images_per_second": 1944.0, "images_per_second": 1681.0},
    },
}


def shown(result):
    console = Console(width=120, record=True, file=io.StringIO())
    for table in tables(result):
        console.print(table)
    return console.export_text()


def test_every_figure_is_shown_with_its_name():
    text = shown(RESULT)
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines()]
    assert ["encoders alone (floor)", "100.00", "1,000", "1.000", "1,000"] in rows
    assert ["SemPPL", "105.00", "952", "1.050", "1,200"] in rows
    assert ["SemPPL from 54 files, 16 workers", "110.00", "909", "1.100", ""] in rows
    assert ["feed", "25.000", "beside"] in rows
    assert ["nearest neighbours as in float64", "99.999 %"] in rows
    assert ["pseudo labels as in float64", "100.000 %"] in rows
    words = "losses of the recorded step with sgd, relative difference"
    assert [words, "1.0e-07 (the plain step again: 0.0e+00)"] in rows
    words = "weights after recorded short fine-tuning, relative difference"
    assert [words, "3.0e-06 (the plain one again: 2.0e-06)"] in rows
    assert ["crops as on a CPU", "90.0 % equal, at most 1 level off"] in rows
    assert ["host waits for the device in a step", "False"] in rows
    assert ["queue", "10,000", "10.000", "30", "n^1.00"] in rows
    assert ["views", "2", "1.000", "", "n^0.00"] in rows
    assert ["even", "60", "300", "5.0"] in rows
    assert ["1,000", "612,000", "41.3", "90.0", "71.2"] in rows
    assert ["simclr", "47.00", "1,781", "1,836"] in rows
    assert ["SemPPL of semppl", "105.00", "", "952"] in rows
    assert "SemPPL over ReLICv2: +0.96 %; start-up 33 s" in text


def test_what_was_not_measured_is_not_shown():
    assert list(tables({"machine": {}, "settings": {}})) == []
    text = shown({**RESULT, "agreement": {"neighbours": RESULT["agreement"]["neighbours"]}})
    assert "host waits" not in text
