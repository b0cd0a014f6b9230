from contextlib import nullcontext
from unittest.mock import Mock

import pytest
import torch
from tests.core.recorders import PlainRecorder

from semppl.core.recording import CudaRecorder, Recorded


class Refusing(PlainRecorder):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def record(self, work, generators):
        self.recordings += 1
        work()  # as far as it comes
        raise self.error


def adder(total, recorder, **options):
    """Adds what it is given, in place; the outcome is the recording's own memory."""

    def work(inputs):
        first, second = inputs
        total.add_(first + second)
        return total

    return Recorded(work, recorder, **options)


def given(number):
    return torch.tensor(float(number)), torch.tensor(10.0 * number)


def test_the_first_calls_run_then_one_recording_is_replayed_with_each_input():
    total, recorder = torch.zeros(()), PlainRecorder()
    add = adder(total, recorder, warm_up=2)
    seen = [float(add(given(number))) for number in range(1, 7)]
    assert seen == [11.0, 33.0, 66.0, 110.0, 165.0, 231.0]
    assert (recorder.runs, recorder.recordings, recorder.replays) == (2, 1, 4)


def test_inputs_are_copied_so_their_own_memory_may_be_used_for_something_else():
    total, recorder = torch.zeros(()), PlainRecorder()
    add = adder(total, recorder, warm_up=0)
    first = given(1)
    add(first)
    first[0].fill_(1000.0)
    add(given(2))
    assert float(total) == 33.0
    assert float(first[0]) == 1000.0


def test_inputs_of_another_number_are_refused():
    add = adder(torch.zeros(()), PlainRecorder(), warm_up=0)
    add(given(1))
    with pytest.raises(ValueError, match="zip"):
        add([*given(1), torch.zeros(())])


def test_what_must_be_done_before_recording_is_done_once_and_generators_are_asked_for_then():
    told, recorder = [], PlainRecorder()
    generators = [torch.Generator()]
    add = adder(
        torch.zeros(()),
        recorder,
        warm_up=1,
        ready=lambda: told.append(recorder.recordings),
        generators=lambda: generators,
    )
    for number in range(4):
        add(given(number))
    assert told == [0]
    assert recorder.generators == generators


def test_a_refusal_is_said_once_and_every_call_runs_as_it_is():
    told, total = [], torch.zeros(())
    recorder = Refusing(RuntimeError("operation not permitted\nmore lines"))

    def start_over():
        told.append(float(total))
        total.fill_(11.0)  # the work of a recording that failed is undone here

    add = adder(total, recorder, warm_up=1, refused=start_over)
    with pytest.warns(UserWarning, match="goes on unrecorded: operation not permitted$") as caught:
        seen = [float(add(given(number))) for number in range(1, 5)]
    assert len(caught) == 1
    assert told == [33.0]
    assert seen == [11.0, 33.0, 66.0, 110.0]
    assert (recorder.runs, recorder.recordings, recorder.replays) == (4, 1, 0)


def test_a_full_memory_is_no_refusal():
    add = adder(torch.zeros(()), Refusing(torch.OutOfMemoryError("CUDA out of memory")), warm_up=0)
    with pytest.raises(torch.OutOfMemoryError):
        add(given(1))


@pytest.fixture
def pretended_gpu(monkeypatch):
    """Streams that do nothing."""
    monkeypatch.setattr(torch.cuda, "Stream", Mock())
    monkeypatch.setattr(torch.cuda, "current_stream", Mock())
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())


@pytest.mark.parametrize("before", [False, True])
def test_kernels_are_searched_in_work_that_will_be_recorded_and_nowhere_else(
    pretended_gpu, monkeypatch, before
):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", before)
    recorder = CudaRecorder(torch.device("cpu"))
    assert recorder.run(lambda: torch.backends.cudnn.benchmark) is True
    assert torch.backends.cudnn.benchmark is before
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Mock())
    monkeypatch.setattr(torch.cuda, "graph", lambda *_, **__: nullcontext())
    monkeypatch.setattr(torch.cuda, "synchronize", Mock())
    assert recorder.record(lambda: torch.backends.cudnn.benchmark)() is before


def test_work_that_fails_leaves_the_search_for_kernels_as_it_was(pretended_gpu):
    def work():
        raise RuntimeError("CUDA error")

    with pytest.raises(RuntimeError, match="CUDA error"):
        CudaRecorder(torch.device("cpu")).run(work)
    assert torch.backends.cudnn.benchmark is False
