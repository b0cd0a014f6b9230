import subprocess
import sys

CODE = """
import os, sys
from pathlib import Path
from semppl.ablate.log import speak_into
print("to the console")
speak_into(Path(sys.argv[1]))
print("words")
sys.stdout.flush()
os.write(2, b"of a library")
"""


def test_everything_goes_to_the_log_and_nothing_before_it_is_lost(tmp_path):
    log = tmp_path / "log.txt"
    log.write_text("before\n")
    done = subprocess.run([sys.executable, "-c", CODE, str(log)], check=True, capture_output=True)
    assert (done.stdout, done.stderr) == (b"to the console\n", b"")
    assert log.read_text() == "before\nwords\nof a library"
