from dataclasses import replace

from semppl.data.source import load_dataset


def test_the_description_counts_what_is_there(npz):
    assert load_dataset(str(npz)).describe() == (
        "stripes.npz: 48 images of 8×8 px, 6 labelled in 3 classes, 12 for testing"
    )


def test_the_fingerprint_changes_with_one_pixel(npz):
    data = load_dataset(str(npz))
    other = data.images_M3HW.clone()
    other[5, 1, 2, 3] ^= 1
    assert replace(data, images_M3HW=other).fingerprint != data.fingerprint
    assert replace(data, images_M3HW=data.images_M3HW.clone()).fingerprint == data.fingerprint
