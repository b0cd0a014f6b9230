import ctypes
import platform
import subprocess
import sys

import pytest

from semppl.core.allocator import keep_freed_memory_


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_blocks_of_16_mb_are_the_process_s_own_and_stay_so_when_they_are_freed():
    def run(before=""):
        lines = f"{before}\nfrom tests.blocks import six_blocks\nprint(*six_blocks())"
        words = [sys.executable, "-c", lines]
        said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        return [int(word) for word in said.split()]

    assert run() == [6, 0]  # mapped from the system one by one, and none is left
    keep = "from semppl.core.allocator import keep_freed_memory_\nassert keep_freed_memory_()"
    mapped, kept_mb = run(keep)
    assert mapped == 0
    assert kept_mb > 80  # of 96: what was free before may serve, too


def test_other_systems_are_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert not keep_freed_memory_()
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())  # musl has no mallopt
    assert not keep_freed_memory_()
