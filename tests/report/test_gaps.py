from pathlib import Path

from semppl.report.gaps import evaluate, fit, resume


def test_commands_can_be_pasted():
    odd = Path("runs/a b;rm")
    assert evaluate(odd) == "semppl evaluate 'runs/a b;rm'"
    assert evaluate(Path("r"), "knn", again=True) == "semppl evaluate r --protocol knn --overwrite"
    assert resume(odd, journey=False) == "semppl pretrain --resume --out 'runs/a b;rm'"
    assert resume(Path("r"), journey=True) == "semppl fit --resume --out r"


def test_advice_comes_from_fit():
    assert fit(Path("r"), {"source": "photos"}, journey=True) == "semppl fit --resume --out r"
    assert fit(Path("r"), {"source": "photos"}, journey=False) == "semppl fit photos --out r-fit"
    assert fit(Path("r"), {"data": None}, journey=False) == "semppl fit DATA --out r-fit"


def test_advice_is_asked_for_with_the_same_labels(tmp_path, monkeypatch):
    data = {"labels": "my labels.csv", "labels_per_class": None, "test": "/t", "workers": 3}
    command = fit(Path("r"), {"source": "photos", "data": data}, journey=False)
    assert command == "semppl fit photos --labels 'my labels.csv' --test /t --out r-fit"
    data = {"labels_per_class": 5, "label_fraction": None}
    monkeypatch.chdir(tmp_path)
    command = fit(Path(), {"source": "digits", "data": data}, journey=False)
    assert command == f"semppl fit digits --labels-per-class 5 --out {tmp_path}-fit"
