"""What each process of a job does: it starts a rank as torchrun would, and sees to its end.

The rank is a child, so that the process which submitit has started outlives the run and can queue the job
again once the run's checkpoint is written.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Final, final

from submitit import JobEnvironment
from submitit.helpers import DelayedSubmission, TorchDistributedEnvironment

from semppl.train.interrupt import SIGNALS

NOTICE: Final = 180
"""Seconds before the end of a job at which SLURM sends its signal."""
# then the job is queued again, with the last checkpoint that is whole
_PATIENCE: Final = NOTICE - 30
# seconds between two looks at the child
_LOOK: Final = 0.1
_STOPPED: Final = {128 + signum for signum in SIGNALS}


@final
class Task:
    """Called by submitit, which calls `checkpoint` when the job must end before the run does."""

    def __init__(self, command: Sequence[str], restarts: int = 0) -> None:
        self.command, self.restarts = tuple(command), restarts
        self._child: subprocess.Popen[bytes] | None = None

    def __call__(self) -> None:
        """The child's exit status is this process's.

        Of ranks that a signal stopped the main one alone says so: any other that ended with an error might
        have SLURM end the main one before it has queued the job again.
        """
        env = rank_environment() | {"TORCHELASTIC_RESTART_COUNT": str(self.restarts)}
        for signum in set(SIGNALS) - {getattr(signal, f"SIG{JobEnvironment.USR_SIG}")}:
            signal.signal(signum, self._pass_on)
        self._child = child = subprocess.Popen(self.command, env=os.environ | env)
        while not _ended(child):
            time.sleep(_LOOK)
        code = child.wait()
        status, main = code if code >= 0 else 128 - code, env["RANK"] == "0"
        if status == 0 or (status in _STOPPED and not main):
            return
        if status not in _STOPPED:
            _say(f"rank {env['RANK']} of {env['WORLD_SIZE']} failed with exit status {status}: see {_log()}")
        sys.exit(status)

    def checkpoint(self) -> DelayedSubmission:
        """The same again, which goes on by itself: it is the same job, started once more.

        This runs in a signal handler, in the middle of `__call__`.
        """
        if self._child is not None:
            self._child.send_signal(signal.SIGUSR2)
            end = time.monotonic() + _PATIENCE
            while not _ended(self._child) and time.monotonic() < end:
                time.sleep(_LOOK)
            self._child.kill()
        return DelayedSubmission(Task(self.command, self.restarts + 1))

    def _pass_on(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a handler's form
        if signum == signal.SIGTERM and _goes_on():
            _say("SLURM gives notice, and will send its signal before the end: the run goes on until then")
        elif self._child is None:
            sys.exit(128 + signum)
        else:
            self._child.send_signal(signum)


def rank_environment() -> dict[str, str]:
    """What torchrun would tell this process. Each sees all GPUs of its machine and takes one by number."""
    here = TorchDistributedEnvironment()
    alone = here.world_size == here.local_world_size
    return {
        "MASTER_ADDR": "127.0.0.1" if alone else here.master_addr,
        "MASTER_PORT": str(here.master_port),
        "RANK": str(here.rank),
        "WORLD_SIZE": str(here.world_size),
        "LOCAL_RANK": str(here.local_rank),
        "LOCAL_WORLD_SIZE": str(here.local_world_size),
        "PYTHONUNBUFFERED": "1",
    }


def _ended(child: subprocess.Popen[bytes]) -> bool:
    """Not by `Popen.poll`: it has a lock, which the frame that a signal interrupted may hold."""
    try:
        return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # Popen knows already
        return True


def _goes_on() -> bool:
    """Whether SLURM still lets the job run: the same signal means that it will be preempted some minutes or
    hours later, or that it is cancelled, and is about to be killed, now.
    """
    command = ["squeue", "--noheader", "--format=%T", f"--jobs={os.environ.get('SLURM_JOB_ID', '')}"]
    with suppress(OSError, subprocess.SubprocessError):
        answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=10)
        return answer.stdout.strip() == "RUNNING"
    return False


def _log() -> str:
    return str(JobEnvironment().paths.stdout)


def _say(words: str) -> None:
    sys.stderr.write(f"semppl: {words}\n")
    sys.stderr.flush()
