from dataclasses import fields

from semppl.config import Config
from semppl.fit.settings import FitSettings
from semppl.verbs import Bench, Demo, Fit, Predict, Pretrain


def test_every_verb_can_show_its_error():
    for verb in (Bench, Demo, Fit, Predict, Pretrain):
        assert "debug" in {field.name for field in fields(verb)}


def test_fit_has_the_flags_of_the_journey():
    verb = Fit(config=Config(), minutes=5.0)
    assert isinstance(verb, FitSettings)
    assert (verb.minutes, verb.baselines, verb.resume) == (5.0, True, False)
