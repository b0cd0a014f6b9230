"""The verb `import`: a released checkpoint becomes a run directory, ready for everything but going on."""

import hashlib
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from torch import Tensor

from semppl.config import Config, to_yaml
from semppl.core.errors import RunError
from semppl.core.rundir import RunDirectory
from semppl.core.staging import put_, staged
from semppl.presets import paper
from semppl.released.convert import Converted, convert
from semppl.released.unpickle import read_pickle
from semppl.resolve import resolved
from semppl.train.checkpoint import write_checkpoint
from semppl.views.preprocessing import Preprocessing

# what the weights were trained on: images of ImageNet, of which the middle 224 px are seen
_IMAGES, _CLASSES = 1_281_167, 1000
PREPROCESSING: Final = Preprocessing(224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "deepmind")


def import_checkpoint(file: Path, out: Path | None, *, overwrite: bool, console: Console) -> RunDirectory:
    """Read, convert, write; nothing is written before every tensor has found its place."""
    run = RunDirectory(out or Path("runs") / file.stem)
    run.require_free(overwrite=overwrite, resumable=False, given=[file])
    converted = convert(read_pickle(file), file.name)
    origin = {"file": file.name, "sha256": _sha256(file), "step": converted.step}
    try:
        # a run that is at work is not replaced
        with run.locked() if run.exists else nullcontext(), staged(run.path) as folder:
            _write(RunDirectory(folder), converted, origin)
            put_(folder, run.path)
    except (OSError, RuntimeError) as error:  # torch has its own for a disk that is full
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise RunError(f"cannot write to {run.path} ({reason}): nothing was changed") from error
    for line in (_told(converted), converted.remark, f"kept in {run.path}"):
        if line:
            console.print(line, highlight=False, soft_wrap=True, markup=False)
    return run


def _write(run: RunDirectory, converted: Converted, origin: dict[str, Any]) -> None:
    config = to_yaml(config_of(converted))
    run.prepare_(config, overwrite=False)
    run.checkpoints.mkdir()
    facts: dict[str, Any] = {
        "config": config,
        "split": None,
        "data": None,
        "preprocessing": PREPROCESSING.as_json(),
        "classifier": _classifier(converted),
        "origin": origin,
    }
    write_checkpoint(run, state_of(converted), facts)
    run.write_environment(origin=origin)


def config_of(converted: Converted) -> Config:
    """The paper's, with the network that the file holds."""
    config, head = paper(), converted.projector_state
    net = replace(
        config.net,
        encoder=converted.encoder,
        width=float(converted.width),
        sk=converted.sk,
        padding="same",
        head_hidden=config.net.head_hidden if head is None else len(head["0.weight"]),
        head_outputs=config.net.head_outputs if head is None else len(head["3.weight"]),
    )
    return resolved(
        replace(config, net=net),
        image_size=PREPROCESSING.size,
        num_images=_IMAGES,
        num_classes=_CLASSES,
    )


def state_of(converted: Converted) -> dict[str, Any]:
    """As a run would have it; heads that the file lacks are left out."""
    online = _below("encoder", converted.encoder_state)
    online |= _below("projector", converted.projector_state or {})
    return {
        "online": online,
        "predictor": converted.predictor_state,
        "target": None,
        "queue": None,
        "optimizer": None,
        "step": converted.step,
    }


def _below(name: str, state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{name}.{key}": value for key, value in state.items()}


def _classifier(converted: Converted) -> dict[str, Any] | None:
    """Classes are known by their number alone."""
    if converted.classifier is None:
        return None
    weight_YF, bias_Y = converted.classifier
    return {"weight": weight_YF, "bias": bias_Y, "classes": [str(i) for i in range(len(bias_Y))]}


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _told(converted: Converted) -> str:
    kernels = " with selective kernels" if converted.sk else ""
    count = sum(
        value.numel()
        for name, value in converted.encoder_state.items()
        if not name.endswith(("running_mean", "running_var", "num_batches_tracked"))
    )
    parts = {
        "projector": converted.projector_state,
        "predictor": converted.predictor_state,
        "classifier": converted.classifier,
    }
    there = [name for name, state in parts.items() if state is not None]
    return (
        f"{converted.encoder}{kernels}, width {converted.width}, {count / 1e6:.3f} million parameters, step "
        f"{converted.step:,}; with {', '.join(there) or 'no head'}"
    )
