from pathlib import Path

from semppl.report.gaps import evaluate, fit, resume


def test_commands_can_be_pasted():
    odd = Path("runs/a b;rm")
    assert evaluate(odd) == "semppl evaluate 'runs/a b;rm'"
    assert evaluate(Path("r"), "knn", again=True) == "semppl evaluate r --protocol knn --overwrite"
    assert resume(odd, journey=False) == "semppl pretrain --resume --out 'runs/a b;rm'"
    assert resume(Path("r"), journey=True) == "semppl fit --resume --out r"


def test_advice_comes_from_fit():
    assert fit(Path("r"), "photos", journey=True) == "semppl fit --resume --out r"
    assert fit(Path("r"), "photos", journey=False) == "semppl fit photos --out r-fit"
    assert fit(Path("r"), "", journey=False) == "semppl fit DATA --out r-fit"
