from dataclasses import fields

import pytest

from semppl.config import Config, to_yaml
from semppl.core.errors import UserError
from semppl.doctor.settings import DoctorFlags
from semppl.fit.settings import FitSettings
from semppl.presets import auto, digits, fit, paper
from semppl.verbs import (
    Bench,
    Demo,
    Doctor,
    Fit,
    Masks,
    Predict,
    Pretrain,
    starting_point,
    stored_journey,
)


def test_every_verb_can_show_its_error():
    for verb in (Bench, Demo, Doctor, Fit, Masks, Predict, Pretrain):
        assert "debug" in {field.name for field in fields(verb)}


def test_fit_has_the_flags_of_the_journey():
    verb = Fit(config=Config(), minutes=5.0)
    assert isinstance(verb, FitSettings)
    assert (verb.minutes, verb.baselines, verb.resume) == (5.0, True, False)


def test_the_doctor_takes_the_flags_of_a_run_and_its_own():
    verb = Doctor(config=Config(), steps=7)
    assert isinstance(verb, DoctorFlags)
    assert (verb.steps, verb.data, verb.config.batch_size) == (7, "", None)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], Config()),
        (["evaluate", "runs/x", "--preset", "paper"], Config()),
        (["masks", "photos"], Config()),
        (["pretrain", "photos"], auto()),
        (["pretrain", "photos", "--preset", "paper"], paper()),
        (["pretrain", "photos", "--preset=digits", "--preset=paper"], paper()),
        (["fit", "photos"], fit()),
        (["doctor"], paper()),
        (["doctor", "--device", "cpu"], paper()),
        (["doctor", "--preset", "digits"], digits()),
        (["doctor", "photos"], auto()),
        (["doctor", "photos", "--preset", "paper"], paper()),
        (["ablate", "voting"], digits()),
        (["ablate", "voting", "--seeds", "3"], digits()),
        (["ablate", "voting", "digits"], digits()),
        (["ablate", "voting", "photos"], auto()),
        (["ablate", "voting", "--preset", "paper"], paper()),
    ],
)
def test_flags_start_from_a_preset(arguments, expected):
    assert starting_point(arguments) == expected


def test_flags_of_a_run_that_goes_on_start_from_its_own(tmp_path):
    stored = Config(source="photos", epochs=3.0)
    (tmp_path / "config.yaml").write_text(to_yaml(stored))
    assert starting_point(["pretrain", "--resume", "--out", str(tmp_path)]) == stored
    with pytest.raises(UserError, match="leave --preset out"):
        starting_point(["pretrain", "--resume", "--out", str(tmp_path), "--preset", "paper"])
    with pytest.raises(UserError, match="--resume needs --out"):
        starting_point(["pretrain", "--resume"])


def test_only_a_journey_that_goes_on_is_stored(tmp_path):
    assert stored_journey(["fit", "photos"]) == {}
    assert stored_journey(["pretrain", "--resume", "--out", str(tmp_path)]) == {}
    assert stored_journey(["fit", "--resume"]) == {}
