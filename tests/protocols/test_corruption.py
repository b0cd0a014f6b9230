import pytest
import torch
from PIL import Image

from semppl.core.corruptions import CORRUPTIONS
from semppl.data.images import gather
from semppl.protocols import corruption
from semppl.protocols.corruption import _in_bytes, corruptions
from semppl.protocols.frozen import exam_features, linear_fit
from semppl.views.preprocessing import CROPS


def test_all_corruptions_on_the_runs_own_images(trained, subject_of):
    subject = subject_of(trained, most=5)
    outcome = corruptions(subject)
    clean, mean, *each = outcome.numbers
    assert tuple(number.name for number in each) == CORRUPTIONS
    assert mean.value == pytest.approx(sum(number.value for number in each) / 15)
    for number in each:
        five = outcome.details["by_severity"][number.name]
        assert len(five) == 5
        assert number.value == pytest.approx(sum(five) / 5)
    index = torch.linspace(0, 29, 5).round().long()
    right = (
        linear_fit(subject, subject.task.labels).logits(exam_features(subject)[index]).argmax(1)
        == subject.task.truth_N[index]
    )
    assert clean.value == pytest.approx(100 * float(right.float().mean()))
    assert "5 of them corrupted by us" in outcome.protocol
    with Image.open(trained.evaluations / "corruptions.png") as sheet:
        assert sheet.width > 600
    assert corruptions(subject).details == outcome.details, "the same draws"


def test_each_image_and_kind_has_draws_of_its_own():
    grey = torch.full((2, 3, 16, 16), 128, dtype=torch.uint8)
    made = corruption._Corrupted(grey, seed=0)
    assert len(made) == 2 * 76
    assert torch.equal(made[0], grey[0])
    noise = [made[2], made[3], made[4]]
    assert not torch.equal(noise[0], noise[1]), "the same corruption of the next image"
    assert not torch.equal(noise[0], noise[2]), "the next severity"
    assert torch.equal(made[2], noise[0])
    assert not torch.equal(corruption._Corrupted(grey, seed=1)[2], noise[0])


def test_images_are_bytes_however_they_are_resized():
    image = torch.tensor([0.4, 0.6, 254.6]).view(3, 1, 1)
    found = _in_bytes(lambda given: given, image)
    assert found.dtype == torch.uint8
    assert found.flatten().tolist() == [0, 1, 255]


def test_images_are_cut_as_the_run_has_it(trained, subject_of, monkeypatch):
    """Both in what is corrupted and in what the classifier was fitted on."""
    seen = []

    def spy(images, prepare, **how):
        seen.append(prepare(torch.arange(3 * 11 * 11, dtype=torch.uint8).view(3, 11, 11)))
        return gather(images, prepare, **how)

    monkeypatch.setattr(corruption, "gather", spy)
    image = torch.arange(3 * 11 * 11, dtype=torch.uint8).view(3, 11, 11)
    for crop, function in CROPS.items():
        corruptions(subject_of(trained, most=2, preprocessing=crop))
        assert torch.equal(seen[-1], function(8, image).round().to(torch.uint8))
    assert not torch.equal(seen[0], seen[1])
