"""What stands for a cluster."""

import os
import shlex
import stat

import pytest

_FLAGS = """--batch-size 16 --views.large 2 --views.small 0 --net.encoder resnet10 --net.width 0.0625
    --net.head-hidden 16 --net.head-outputs 8 --device cpu --log-every 2"""
TINY = shlex.split(_FLAGS)


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """`programs(squeue="echo RUNNING")` puts a program of that name into the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def put(**scripts):
        for name, script in scripts.items():
            file = folder / name
            file.write_text(f"#!/bin/sh\n{script}\n")
            file.chmod(file.stat().st_mode | stat.S_IXUSR)

    return put
