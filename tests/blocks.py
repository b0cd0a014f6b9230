"""What glibc does with blocks of 16 MB. No torch."""

from ctypes import CDLL, Structure, c_int, c_size_t, c_void_p


class _Info(Structure):
    _fields_ = [
        (name, c_int) for name in ["arena", "bins", "fast", "mapped", "d", "e", "f", "g", "free", "top"]
    ]


def six_blocks() -> tuple[int, int]:
    """Get six blocks and free them: how many were mapped from the system one by one, and how many MB stay."""
    libc = CDLL(None)
    libc.malloc.argtypes, libc.malloc.restype = [c_size_t], c_void_p
    libc.free.argtypes, libc.mallinfo.restype = [c_void_p], _Info
    mapped, free = libc.mallinfo().mapped, libc.mallinfo().free
    blocks = [libc.malloc(16 * 2**20) for _ in range(6)]
    mapped = libc.mallinfo().mapped - mapped
    for block in blocks:
        libc.free(block)
    return mapped, (libc.mallinfo().free - free) // 2**20
