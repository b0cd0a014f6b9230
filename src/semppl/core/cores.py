"""How many CPU cores this process may use."""

import os


def usable_cores() -> int:
    """Those it is allowed to run on, where the system says so; otherwise all there are."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS or Windows
        return os.cpu_count() or 1
