from semppl.evaluate.exam import final_exam, validation_exam
from semppl.fit import supervised as module
from semppl.fit.supervised import supervised


def test_the_baseline_sees_the_training_labels_alone(desk, monkeypatch):
    seen, original = [], module.train_supervised_

    def spy(encoder, images, labels, **options):
        seen.append((len(images), labels.tolist(), options["steps"]))
        return original(encoder, images, labels, **options)

    monkeypatch.setattr(module, "train_supervised_", spy)
    monkeypatch.setattr(module, "_FEWEST", 4)
    monkeypatch.setattr(module, "_MOST", 4)
    row = supervised(desk, final_exam(desk.dataset), validation_exam(desk.dataset), seconds=1.0)
    assert [steps for _, _, steps in seen] == [4, 4], "timed first"
    assert seen[-1][0] == 12
    assert seen[-1][1] == desk.dataset.labels_M[desk.dataset.labelled_L].tolist()
    assert (row.name, row.way, len(row.right_N)) == ("supervised only", "own head", 21)
    assert row.seconds > 0
