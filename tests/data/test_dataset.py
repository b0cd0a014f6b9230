from dataclasses import replace

from semppl.data.request import Request
from semppl.data.source import load_dataset


def test_the_description_counts_what_is_there(npz):
    assert load_dataset(Request(source=str(npz))).describe() == (
        "stripes.npz: 48 images of 8×8 px, 6 labelled in 3 classes, 12 for testing"
    )


def test_the_fingerprint_changes_with_one_pixel(npz):
    data = load_dataset(Request(source=str(npz)))
    other = data.images.clone()
    other[5, 1, 2, 3] ^= 1
    assert replace(data, images=other).fingerprint != data.fingerprint
    assert replace(data, images=data.images.clone()).fingerprint == data.fingerprint
