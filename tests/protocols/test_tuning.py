import torch

from semppl.evaluate.finetune import DEFAULT_SWEEP
from semppl.protocols.tuning import right_on, tune

HOW = {"rates": DEFAULT_SWEEP[0], "epochs": 1, "batch_size": 4, "seed": 0}


def test_the_given_networks_stay_as_they_are(desk, online):
    before = {name: value.clone() for name, value in online.state_dict().items()}
    index = desk.dataset.labelled_L
    told = []
    tune(desk, online, index, desk.dataset.labels_M[index], title="x", advance=told.append, **HOW)
    assert all(torch.equal(value, before[name]) for name, value in online.state_dict().items())
    assert told == [1, 2, 3], "12 labels, 4 at a time"


def test_where_the_device_can_steps_are_recorded_with_the_same_weights(desk, online, recorded):
    index = desk.dataset.labelled_L
    how = HOW | {"epochs": 3, "title": None}
    found = [tune(desk, online, index, desk.dataset.labels_M[index], **how)]
    recorder = recorded()
    found.append(tune(desk, online, index, desk.dataset.labels_M[index], **how))
    assert (recorder.runs, recorder.recordings, recorder.replays) == (3, 1, 6)
    torch.testing.assert_close(*(each.state_dict() for each in found))


def test_files_that_do_not_fit_are_read_step_by_step(make_desk, online, monkeypatch):
    desk = make_desk(feed="streaming")
    index = desk.dataset.labelled_L
    labels = desk.dataset.labels_M[index]
    monkeypatch.setattr("semppl.protocols.desk.memory_for_pixels", lambda device: 0)
    monkeypatch.setattr(type(desk), "pixels", lambda *_: (_ for _ in ()).throw(AssertionError("in memory")))
    examples, close = desk.examples(index, labels, batch_size=4, seed=0, name="x")
    seen = []
    for step in range(3):
        views, labels_B = examples(step)
        assert views.shape == (4, 3, 8, 8)
        assert views.dtype == torch.float32
        seen += labels_B.tolist()
    assert sorted(seen) == sorted(labels.tolist()), "an epoch shows every label once"
    close()
    model = tune(desk, online, index, labels, title=None, **HOW)
    assert model(torch.zeros(2, 3, 8, 8)).shape == (2, 3)


def test_what_is_not_finite_is_no_answer(desk, online):
    index = desk.dataset.labelled_L
    labels = desk.dataset.labels_M[index]
    model = tune(desk, online, index, labels, title=None, **HOW)
    torch.nn.init.zeros_(model.classifier.weight)
    torch.nn.init.zeros_(model.classifier.bias)
    assert torch.equal(right_on(desk, model, index, labels), labels == 0), "the first of equals"
    torch.nn.init.constant_(model.classifier.bias, float("nan"))
    assert not right_on(desk, model, index, labels).any()
