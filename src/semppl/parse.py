"""From the words of a command to a verb with its flags. No torch here, so that --help is quick."""

import contextlib
import inspect
import io
import re

import tyro

from semppl.bench.settings import BenchFlags
from semppl.core.errors import UserError
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
        raise UserError(_one_line(words.getvalue())) from None
    return verb


def _one_line(box: str) -> str:
    """The parser's message without its title, frame, rules and hints."""
    lines = [line.strip("│╭╮╰╯ ") for line in box.splitlines()[1:]]
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if set(line) <= {"─", "-"}:
            paragraphs.append([])
        else:
            paragraphs[-1].append(line)
    said = [" ".join(words) for words in paragraphs if words]
    said = [words for words in said if not words.startswith(("Argument helptext", "For full helptext"))]
    for i, words in enumerate(said):
        if words.startswith("Perhaps you meant"):
            found = re.findall(r"--[a-z][\w.-]*", words)  # several verbs may have it
            flags = [flag for flag in dict.fromkeys(found) if flag != "--help"]
            said[i] = f"perhaps {' or '.join(flags)}"
    return f"{'; '.join(said)} (--help shows what there is)"
