"""From the words of a command to a verb with its flags. No torch here, so that --help is quick."""

import contextlib
import inspect
import io
import re
from itertools import takewhile

import tyro

from semppl.ablate.settings import TABLES, not_joined
from semppl.bench.settings import BenchFlags
from semppl.core.errors import UserError
from semppl.core.numbers import check_numbers
from semppl.verbs import (
    Ablate,
    Bench,
    Demo,
    Doctor,
    Evaluate,
    Export,
    Fit,
    Import,
    Masks,
    Predict,
    Pretrain,
    Report,
    starting_point,
    stored_journey,
)


def parse(arguments: list[str]) -> object:
    """Flags over the preset, or over the stored configuration of a run that goes on."""
    start = starting_point(arguments)
    defaults = {
        "demo": Demo(),
        "fit": Fit(config=start, **stored_journey(arguments)),
        "predict": Predict(),
        "evaluate": Evaluate(),
        "report": Report(),
        "ablate": Ablate(config=start),
        "masks": Masks(),
        "export": Export(),
        "import": Import(),
        "pretrain": Pretrain(config=start),
        "bench": Bench(),
        "doctor": Doctor(config=start),
    }
    documents = {name: BenchFlags if name == "bench" else type(verb) for name, verb in defaults.items()}
    verbs = tyro.extras.subcommand_type_from_defaults(
        defaults,
        descriptions={name: inspect.getdoc(kind) or "" for name, kind in documents.items()},
        prefix_names=False,
    )
    for flag in ("--rows", "--per-class"):
        if sum(word == flag or word.startswith(f"{flag}=") for word in arguments) > 1:
            raise UserError(
                f"{flag} is given twice, and the last would win: put all values behind one {flag}"
            )
    words = io.StringIO()
    try:
        with contextlib.redirect_stderr(words):
            verb = tyro.cli(
                verbs,
                prog="semppl",
                description="SemPPL: representations from many unlabelled images and few labels.",
                args=arguments or ["--help"],
                config=(tyro.conf.AvoidSubcommands,),
            )
    except SystemExit as leaving:
        if not leaving.code:
            raise
        raise UserError(_one_line(words.getvalue(), arguments)) from None
    if not getattr(verb, "resume", False):  # a run goes on as it began
        check_numbers(verb)
    return verb


def _one_line(box: str, arguments: list[str]) -> str:
    """The parser's message without its title, frame, rules and hints, such as a flag of another verb."""
    lines = [line.strip("│╭╮╰╯ ") for line in box.splitlines()[1:]]
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if set(line) <= {"─", "-"}:
            paragraphs.append([])
        else:
            paragraphs[-1].append(line)
    said = [" ".join(words) for words in paragraphs if words]
    hints = ("Argument helptext", "For full helptext", "Arguments are applied to")
    said = [re.sub(r" \(applied to [^)]*\)", "", words) for words in said if not words.startswith(hints)]
    for i, words in enumerate(said):
        if words.startswith("Perhaps you meant"):
            found = re.findall(r"--[a-z][\w.-]*", words)  # several verbs may have it
            given = {argument.split("=")[0] for argument in arguments}
            flags = [flag for flag in dict.fromkeys(found) if flag not in {"--help", *given}]
            said[i] = f"perhaps {' or '.join(flags)}" if flags else ""
    tables = tuple(takewhile(TABLES.__contains__, arguments[1:] if arguments[:1] == ["ablate"] else ()))
    if len(tables) > 1:
        said.append(not_joined(tables))
    return f"{'; '.join(filter(None, said))} (--help shows what there is)"
