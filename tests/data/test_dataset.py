from dataclasses import replace

import torch

from semppl.data.request import Request
from semppl.data.source import load_dataset


def test_the_description_counts_what_is_there(npz):
    data = load_dataset(Request(source=str(npz)))
    assert data.describe() == "stripes.npz: 48 images of 8×8 px, 6 labelled in 3 classes, 12 for testing"
    one = replace(
        data, images=data.images[:1], labels_M=torch.tensor([0]), classes=("a",), held_out_M=torch.tensor([0])
    )
    assert one.describe() == (
        "stripes.npz: 1 image of 8×8 px, 1 labelled in 1 class, 1 more label held out for validation, "
        "12 for testing"
    )


def test_the_fingerprint_changes_with_one_pixel(npz):
    data = load_dataset(Request(source=str(npz)))
    other = data.images.clone()
    other[5, 1, 2, 3] ^= 1
    assert replace(data, images=other).fingerprint != data.fingerprint
    assert replace(data, images=data.images.clone()).fingerprint == data.fingerprint


def test_masks_have_a_fingerprint_of_their_own(npz):
    plain = load_dataset(Request(source=str(npz)))
    assert plain.masks_fingerprint is None
    masks = torch.ones(48, 8, 8, dtype=torch.bool)
    other = masks.clone()
    other[5, 2, 3] = False
    one, same, changed = (replace(plain, masks_MHW=each) for each in (masks, masks.clone(), other))
    assert one.masks_fingerprint == same.masks_fingerprint != changed.masks_fingerprint
    assert one.fingerprint == changed.fingerprint == plain.fingerprint


def test_masks_of_files_are_known_by_their_images_and_sizes_wherever_they_are_read(npz):
    plain = load_dataset(Request(source=str(npz)))
    sizes = torch.arange(48)
    read = replace(plain, mask_bytes_M=sizes, masks_MHW=torch.ones(48, 8, 8, dtype=torch.bool))
    listed = replace(plain, mask_bytes_M=sizes)
    assert read.masks_fingerprint == listed.masks_fingerprint
    assert replace(listed, mask_bytes_M=sizes.flip(0)).masks_fingerprint != listed.masks_fingerprint
    assert replace(listed, names=plain.names[::-1]).masks_fingerprint != listed.masks_fingerprint
