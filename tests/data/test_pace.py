from types import SimpleNamespace

import torch

from semppl.data.pace import AHEAD, Pace

MADE = []


class Event:
    def __init__(self):
        self.waited = False
        MADE.append(self)

    def record(self, stream):
        self.stream = stream

    def synchronize(self):
        self.waited = True


def test_the_host_waits_for_the_batch_before_the_last_two(monkeypatch):
    MADE.clear()
    fake = SimpleNamespace(Event=Event, current_stream=lambda device: "stream")
    monkeypatch.setattr(torch, "cuda", fake)
    pace = Pace(torch.device("cuda"))
    for count in range(1, 6):
        pace.keep()
        assert [event.waited for event in MADE] == [i < count - AHEAD for i in range(count)]


def test_on_a_cpu_nobody_waits():
    Pace(torch.device("cpu")).keep()
