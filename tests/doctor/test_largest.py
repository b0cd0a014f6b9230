import pytest

from semppl.doctor.largest import largest_fitting, part_of, safe_batch


@pytest.mark.parametrize(
    ("limit", "start", "most", "found", "tries"),
    [
        (1000, 256, 4096, (512, True), [256, 512, 1024]),
        (100, 256, 4096, (64, True), [256, 128, 64]),
        (10**6, 256, 1024, (1024, False), [256, 512, 1024]),
        (10**6, 256, 1023, (512, False), [256, 512]),
        (2, 7, 100, (2, True), [7, 3, 2]),
        (1, 8, 100, (0, True), [8, 4, 2]),
        (256, 256, 512, (256, True), [256, 512]),
    ],
)
def test_doubling_and_halving(limit, start, most, found, tries):
    tried = []

    def fits(size):
        tried.append(size)
        return size <= limit

    assert largest_fitting(fits, start, most) == found
    assert tried == tries


def test_doubling_ends_when_there_was_enough_of_it():
    clock = iter([False, False, True])
    assert largest_fitting(lambda size: True, 2, 10**9, lambda: next(clock)) == (8, False)


def test_a_fifth_of_the_memory_stays_free():
    # 100 fixed and 10 for each image; 0.8 × 1000 = 800 leave room for 70 of them
    assert safe_batch((2, 120), (6, 160), 1000) == 64
    assert safe_batch((2, 120), (6, 160), 925) == 64
    assert safe_batch((2, 120), (6, 160), 924) == 32


def test_a_memory_for_less_than_two_images_fits_none():
    assert safe_batch((2, 120), (6, 160), 149) == 0
    assert safe_batch((2, 120), (6, 160), 150) == 2


def test_images_that_seem_to_need_no_memory_are_taken_to_need_a_byte():
    assert safe_batch((2, 100), (64, 90), 1000) == 512


def test_parts_divide_a_batch():
    assert part_of(4096, 500) == 256
    assert part_of(96, 40) == 32
    assert part_of(8, 100) == 8
    assert part_of(97, 50) == 0
    assert part_of(8, 1) == 0
