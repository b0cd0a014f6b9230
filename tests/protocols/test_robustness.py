import pytest
from rich.console import Console
from tests.conftest import save_stripes, tiny_config

from semppl.config import DataConfig
from semppl.core.corruptions import CORRUPTIONS, SEVERITIES
from semppl.core.errors import UserError
from semppl.core.rundir import RunDirectory
from semppl.data.objectnet import OBJECTNET
from semppl.data.robustness import VARIANTS
from semppl.data.wnids import imagenet_r_indices, wnid_index
from semppl.protocols.robustness import robustness
from semppl.train.pretrain import pretrain
from semppl.views.whole import framed_crop, ready_crop

WNIDS = list(wnid_index())
BANANA = OBJECTNET["banana"][0]
SHOWN = sorted({1, 2, BANANA})
CLASSES = [WNIDS[index] for index in SHOWN]


@pytest.fixture(scope="module")
def imagenet(tmp_path_factory):
    """A run on three classes of ImageNet, and the four families with a few images of each."""
    root = tmp_path_factory.mktemp("imagenet")
    for label, wnid in enumerate(CLASSES):
        save_stripes(root / "data" / "train" / wnid, [label] * 8, seed=label)
        save_stripes(root / "data" / "val" / wnid, [label] * 2, seed=9 + label)
        for variant in VARIANTS:
            folder = root / "tests" / f"imagenetv2-{variant}-format-val" / str(SHOWN[label])
            save_stripes(folder, [label] * 2, seed=20 + label)
        for corruption in CORRUPTIONS:
            for severity in SEVERITIES:
                folder = root / "tests" / "imagenet-c" / corruption / str(severity) / wnid
                save_stripes(folder, [label], seed=30 + severity, suffix="jpeg")
    assert {1, 2, BANANA} <= {*imagenet_r_indices()}
    for label, wnid in enumerate(CLASSES):
        save_stripes(root / "tests" / "imagenet-r" / wnid, [label] * 2, seed=40 + label)
    save_stripes(root / "tests" / "objectnet-1.0" / "images" / "banana", [SHOWN.index(BANANA)] * 3, size=12)
    save_stripes(root / "tests" / "objectnet-1.0" / "images" / "chair", [0] * 2, size=12)
    run = RunDirectory(root / "run")
    config = tiny_config(root / "data", data=DataConfig(labels_per_class=4, workers=0), batch_size=8)
    pretrain(config, run, console=Console(quiet=True))
    return run, root / "tests"


def test_all_families_from_their_published_folders(imagenet, subject_of):
    run, root = imagenet
    outcome = robustness(subject_of(run, root=root, labels="all"))
    names = [number.name for number in outcome.numbers]
    assert names[:8] == [
        *(f"imagenet-v2/{variant}" for variant in VARIANTS),
        "imagenet-r (1000-way)",
        "imagenet-r (200-way)",
        "objectnet (1000-way)",
        "objectnet (125-way)",
        "imagenet-c, mean over 15 corruptions",
    ]
    assert names[8:] == [f"imagenet-c/{name}" for name in CORRUPTIONS]
    numbers = {number.name: number.value for number in outcome.numbers}
    # the stripe of each class can be seen, and chairs are nothing that the classifier knows
    assert numbers["imagenet-v2/top-images"] > 50
    assert numbers["objectnet (125-way)"] == 60.0
    assert outcome.details["sets"]["objectnet"] == {"images": 5, "published": 18_574}
    assert len(outcome.details["all_numbers"]) == 3 + 75 + 2 + 2
    assert "24 labels, all that are known" in outcome.protocol


def test_one_family_may_be_asked_for(imagenet, subject_of):
    run, root = imagenet
    outcome = robustness(subject_of(run, root=root, sets=("imagenet-r",)))
    assert [number.name for number in outcome.numbers] == ["imagenet-r (1000-way)", "imagenet-r (200-way)"]


def test_images_are_cut_as_each_family_needs(imagenet, subject_of, monkeypatch):
    run, root = imagenet
    subject = subject_of(run, root=root)
    cuts, real = {}, type(subject.desk).features

    def spy(desk, encoder, images, title="", *, prepare=None, prepared="", keep=True):
        cuts[title.split("/")[0]] = (getattr(prepare, "func", None), prepared, keep)
        return real(desk, encoder, images, title, prepare=prepare, prepared=prepared)

    monkeypatch.setattr(type(subject.desk), "features", spy)
    robustness(subject)
    assert cuts["objectnet"] == (framed_crop, "without 2 px of border", True)
    assert cuts["imagenet-c"] == (ready_crop, "ready", False)
    assert cuts["imagenet-r"] == cuts["imagenet-v2"] == (None, "", True)


def test_no_test_images_of_the_run_are_needed(imagenet, subject_of, monkeypatch):
    run, root = imagenet
    subject = subject_of(run, root=root, labels="all", sets=("imagenet-r",))
    monkeypatch.setattr(type(subject), "task", property(lambda _: pytest.fail("the exam plays no part")))
    assert "24 labels, all that are known of 24 images; top-1" in robustness(subject).protocol


def test_other_classes_than_imagenets_are_refused(trained, subject_of):
    with pytest.raises(UserError, match=r"the run's classes are 'cat', 'dog', 'owl'"):
        robustness(subject_of(trained))
