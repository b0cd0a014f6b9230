import pytest

from semppl.config import Config, to_yaml
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


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e999"])
@pytest.mark.parametrize("flag", ["--minutes", "--epochs", "--method.temperature"])
def test_a_number_that_is_not_finite_is_refused(flag, number):
    with pytest.raises(UserError, match=rf"^{flag} is (nan|-?inf): it must be a finite number$"):
        parse(["fit", "photos", flag, number])


def test_the_numbers_of_every_verb_are_checked():
    with pytest.raises(UserError, match="--temperature is nan"):
        parse(["evaluate", "run", "--temperature", "nan"])


def test_each_of_several_numbers_is_checked():
    with pytest.raises(UserError, match=r"^--net\.mean is nan: it must be a finite number$"):
        parse(["pretrain", "x", "--net.mean", "0.1", "nan", "0.1"])


def test_a_run_goes_on_with_whatever_seed_it_began(tmp_path):
    (tmp_path / "config.yaml").write_text(to_yaml(Config(source="digits", seed=-1)))
    assert parse(["pretrain", "--resume", "--out", str(tmp_path)]).config.seed == -1


@pytest.mark.parametrize("verb", ["fit", "pretrain", "evaluate"])
@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_that_would_fail_after_training_is_refused_before(verb, seed):
    said = f"--seed is {seed}: it must be at least 0 and below 4294967296"
    with pytest.raises(UserError, match=f"^{said}$"):
        parse([verb, "x", "--seed", str(seed)])
    flag = "--split-seed" if verb == "evaluate" else "--data.split-seed"
    with pytest.raises(UserError, match=f"^{flag} is {seed}: it must be at least 0"):
        parse([verb, "x", flag, str(seed)])


@pytest.mark.parametrize("seed", [0, 2**32 - 1])
def test_the_least_and_the_largest_seed_are_taken(seed):
    assert parse(["fit", "photos", "--seed", str(seed)]).config.seed == seed


def test_a_flag_of_another_verb_is_not_proposed_again():
    with pytest.raises(UserError) as caught:
        parse(["predict", "run", "images", "--batch-size", "0"])
    assert (
        str(caught.value) == "Unrecognized or misplaced options: --batch-size 0 (--help shows what there is)"
    )
    with pytest.raises(UserError, match=r"--split-seed 3; perhaps --data\.split-seed \("):
        parse(["fit", "photos", "--split-seed", "3"])
    with pytest.raises(UserError, match=r"--split-seed=3; perhaps --data\.split-seed \("):
        parse(["fit", "photos", "--split-seed=3"])


def test_no_words_ask_for_help(capsys):
    with pytest.raises(SystemExit) as left:
        parse([])
    assert left.value.code == 0
    assert "pretrain" in capsys.readouterr().out


def test_rows_that_would_be_forgotten_are_refused():
    for words in (
        ["--rows", "method.k=2", "--rows", "method.k=3"],
        ["--rows=method.k=2", "--rows=method.k=3"],
    ):
        with pytest.raises(UserError, match=r"^--rows is given twice"):
            parse(["ablate", "own", *words])
    with pytest.raises(UserError, match=r"^--per-class is given twice"):
        parse(["ablate", "labels", "--per-class", "1", "--per-class", "2"])
    assert parse(["ablate", "own", "--rows", "method.k=2", "method.k=3"]).rows == ("method.k=2", "method.k=3")
