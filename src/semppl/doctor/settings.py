"""The flags of `semppl doctor` that are not those of a run. No torch here."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semppl.core.errors import UserError


@dataclass(frozen=True, kw_only=True)
class DoctorFlags:
    """See the verb."""

    preset: str | None = None
    """Where the other flags start from: auto (by the data), paper, digits; by default auto with DATA, and
    paper without."""
    steps: int = 30
    """Steps of the probe."""
    seconds: float = 30.0
    """The probe ends after so long even if fewer steps are done."""
    intra_gbps: float = 3600.0
    """Gbit/s that a device can send to others of its machine (NVLink of an H100: 3600). Taken for granted,
    as the next three."""
    inter_gbps: float = 400.0
    """Gbit/s that a machine of 8 devices can send to others."""
    intra_us: float = 20.0
    """Microseconds that a message between the devices of a machine takes however short it is."""
    inter_us: float = 60.0
    """The same where several machines take part."""
    out: Path | None = None
    """File for everything that was found, as JSON."""
    overwrite: bool = False
    """Replace a file that is already there."""
    debug: bool = False
    """Show the traceback of an error."""


_LEAST: Final = {"steps": 2, "seconds": 0.0, "intra_us": 0.0, "inter_us": 0.0}
_POSITIVE: Final = ("intra_gbps", "inter_gbps")


def check(flags: DoctorFlags) -> None:
    """Refuse what cannot be measured or written, before anything is."""
    for name, least in _LEAST.items():
        if getattr(flags, name) < least:
            raise UserError(f"{_flag(name)} is {getattr(flags, name):g}: it must be at least {least:g}")
    for name in _POSITIVE:
        if not getattr(flags, name) > 0:
            raise UserError(f"{_flag(name)} is {getattr(flags, name):g}: it must be above 0")
    if flags.out is not None:
        _check_file(flags.out, overwrite=flags.overwrite)


def _check_file(out: Path, *, overwrite: bool) -> None:
    if out.is_dir():
        raise UserError(f"--out {out} is a folder: name a file, such as {out / 'doctor.json'}")
    if out.exists() and not overwrite:
        raise UserError(f"{out} is there already: give --overwrite, or another --out")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {out}: {error.strerror or error}: give another file") from error


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
