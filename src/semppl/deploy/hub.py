"""A folder on the Hugging Face Hub, with a card that says what it is."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import huggingface_hub

from semppl.core.errors import RunError, UserError
from semppl.core.rundir import write_text
from semppl.deploy.network import Network
from semppl.deploy.settings import PUSHED

CARD: Final = "README.md"
_NAME: Final = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)
_LISTED: Final = 100
_REFUSED: Final = (401, 403)

_TIMM: Final = """\
import timm
from PIL import Image

model = timm.create_model("hf-hub:{name}", pretrained=True).eval()
transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)
{output} = model(transform(Image.open("image.jpg").convert("RGB"))[None])"""
_SAFETENSORS: Final = """\
import semppl
from huggingface_hub import snapshot_download

model = semppl.load(snapshot_download("{name}"))
{output} = model(model.preprocess("image.jpg")[None])"""


def check_push(name: str, formats: Sequence[str]) -> None:
    """Refuse what cannot work, before anything is written."""
    if len(formats) != 1 or formats[0] not in PUSHED:
        raise UserError(f"--push takes one format, {' or '.join(PUSHED)}, not {' '.join(formats)}")
    if not _NAME.fullmatch(name):
        raise UserError(f"--push {name}: it is USER/NAME, of letters, digits, dots, - and _")
    if huggingface_hub.get_token() is None:
        raise UserError("--push needs a token of the Hugging Face Hub: log in first, with `hf auth login`")


def write_card(folder: Path, network: Network, kind: str, name: str) -> None:
    """README.md of the folder."""
    write_text(folder / CARD, model_card(network, kind, name))


def model_card(network: Network, kind: str, name: str) -> str:
    """What the Hub shows: architecture, classes, how images are made ready, how to load it."""
    ours, how = network.architecture, network.preprocessing
    output, task, what = (
        ("features", "image-feature-extraction", f"features of {network.encoder.num_features} numbers")
        if network.head is None
        else ("logits", "image-classification", f"logits of {len(network.classes)} classes")
    )
    kernels = ", selective kernels" if ours.sk else ""
    code = {"timm": _TIMM, "safetensors": _SAFETENSORS}[kind].format(name=name, output=output)
    return f"""\
---
library_name: {"timm" if kind == "timm" else "semppl"}
pipeline_tag: {task}
tags:
- semppl
---
# {name.partition("/")[2]}

Images to {what}, trained with SemPPL (semantic positives from few labels) and exported by `semppl export`.

- architecture: `{ours.encoder}`, width {ours.width:g}, {ours.stem} stem, {ours.padding} padding{kernels}
- input: RGB, {how.size}×{how.size} px, {_SEEN[how.crop]}
- normalisation: mean {_numbers(how.mean)}, standard deviation {_numbers(how.std)}, where white is 1

```python
{code}
```
{_classes(network.classes)}"""


_SEEN: Final = {
    "middle": "the middle square, bicubic",
    "deepmind": "the middle as in DeepMind's evaluation, bicubic without antialiasing",
}


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4f}" for value in values)


def _classes(classes: Sequence[str]) -> str:
    """Names come from the user: as quoted strings in an indented block nothing in them is markup."""
    if not classes:
        return ""
    lines = [f"    {number}: {_quoted(name)}" for number, name in enumerate(classes[:_LISTED])]
    if len(classes) > _LISTED:
        lines.append(f"    … and {len(classes) - _LISTED:,} more, in config.json")
    return "\n".join(("\n## Classes\n", *lines, ""))


def _quoted(name: str) -> str:
    return json.dumps(name.encode(errors="replace").decode(), ensure_ascii=False)


def push(folder: Path, name: str, *, private: bool) -> str:
    """Send a folder, and give the address where it is now."""
    try:
        api = huggingface_hub.HfApi()
        address = str(api.create_repo(name, private=private, exist_ok=True))
        api.upload_folder(repo_id=name, folder_path=folder, commit_message="semppl export")
    except Exception as error:  # its errors, those of files and those of whichever HTTP client it uses
        raise RunError(
            f"{folder} is written, but not pushed to {name} ({_reason(error)}); then repeat with --overwrite"
        ) from error
    return address


def _reason(error: Exception) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in _REFUSED:
        return (
            f"the Hub refuses your token, {status}: log in with `hf auth login`, as one who may write there"
        )
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
