import pytest

from semppl.core.errors import UserError
from semppl.parse import parse
from semppl.verbs import Evaluate, Masks, Pretrain


def test_words_become_a_verb_with_its_flags():
    verb = parse(["pretrain", "photos", "--method.k", "3", "--seed", "7"])
    assert isinstance(verb, Pretrain)
    assert (verb.data, verb.config.method.k, verb.config.seed) == ("photos", 3, 7)
    assert isinstance(parse(["evaluate", "here", "--protocol", "knn"]), Evaluate)
    masks = parse(["masks", "photos", "--refine", "off"])
    assert isinstance(masks, Masks)
    assert (masks.data, masks.refine, masks.train_images) == ("photos", "off", 2500)


def test_flags_lie_over_the_preset():
    verb = parse(["pretrain", "photos", "--preset", "digits", "--epochs", "3"])
    assert (verb.config.epochs, verb.config.batch_size) == (3.0, 128)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["pretrain", "photos", "--epochss", "3"], "perhaps --epochs"),
        (["pretrain", "photos", "--epochs", "many"], "--epochs"),
        (["report", "x", "--tabel", "t.md"], "perhaps --table or --labels or --data.labels ("),
        (["dance"], "dance"),
    ],
)
def test_a_mistake_is_one_line_without_frames(arguments, words):
    with pytest.raises(UserError) as caught:
        parse(arguments)
    said = str(caught.value)
    assert words in said
    assert "\n" not in said
    assert not set(said) & set("│╭╮╰╯─")
    assert said.endswith("(--help shows what there is)")


def test_no_words_ask_for_help(capsys):
    with pytest.raises(SystemExit) as left:
        parse([])
    assert left.value.code == 0
    assert "pretrain" in capsys.readouterr().out
