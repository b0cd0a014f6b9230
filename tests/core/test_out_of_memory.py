import numpy as np
import pytest
import torch

from semppl.core.out_of_memory import out_of_memory

MANY = 2**50


def test_what_torch_says_of_a_cpu_is_understood():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(MANY, dtype=torch.uint8)
    assert out_of_memory(caught.value) == "out of memory (tried to get 1,125,899.9 GB)"


def test_what_numpy_says_is_understood():
    with pytest.raises(MemoryError) as caught:
        np.empty(MANY, dtype=np.uint8)
    assert out_of_memory(caught.value) == "out of memory (tried to get 1.00 PiB)"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB."), "tried to get 2.50 GiB"),
        (
            RuntimeError(
                "[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 5 bytes"
            ),
            "0.0 GB",
        ),
        (MemoryError(), "out of memory"),
    ],
)
def test_others_too(error, words):
    assert words in out_of_memory(error)


@pytest.mark.parametrize("error", [RuntimeError("mat1 and mat2"), OSError("out of memory"), ValueError("")])
def test_other_errors_are_none(error):
    assert out_of_memory(error) is None
