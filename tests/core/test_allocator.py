import ctypes
import platform
import subprocess
import sys

import pytest

from semppl.core.allocator import keep_freed_memory_

_SIX_BLOCKS = """
import sys
from ctypes import CDLL, Structure, c_int, c_size_t, c_void_p
from semppl.core.allocator import keep_freed_memory_

class Info(Structure):
    _fields_ = [(name, c_int) for name in "arena bins fast mapped d e f g free top".split()]

libc = CDLL(None)
libc.malloc.argtypes, libc.malloc.restype = [c_size_t], c_void_p
libc.free.argtypes, libc.mallinfo.restype = [c_void_p], Info
if "keep" in sys.argv:
    assert keep_freed_memory_()
mapped, free = libc.mallinfo().mapped, libc.mallinfo().free
blocks = [libc.malloc(16 * 2**20) for _ in range(6)]
mapped = libc.mallinfo().mapped - mapped
for block in blocks:
    libc.free(block)
print(mapped, (libc.mallinfo().free - free) // 2**20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_blocks_of_16_mb_are_the_process_s_own_and_stay_so_when_they_are_freed():
    def run(*arguments):
        words = [sys.executable, "-c", _SIX_BLOCKS, *arguments]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()

    assert run() == ["6", "0"]  # mapped from the system one by one, and none is left
    assert run("keep") == ["0", "96"]


def test_other_systems_are_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert not keep_freed_memory_()
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())  # musl has no mallopt
    assert not keep_freed_memory_()
