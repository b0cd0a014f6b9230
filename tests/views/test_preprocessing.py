import json
import pickle

import torch

from semppl.views.preprocessing import CROPS, Preprocessing
from semppl.views.tensorflow import tensorflow_crop
from semppl.views.whole import whole_crop

IMAGE = torch.randint(256, (3, 30, 41), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_each_name_is_its_crop():
    assert {"middle": whole_crop, "deepmind": tensorflow_crop} == CROPS
    for name, crop in CROPS.items():
        prepare = Preprocessing(12, (0.5,) * 3, (0.2,) * 3, name).prepare
        assert torch.equal(prepare(IMAGE), crop(12, IMAGE))
        assert torch.equal(pickle.loads(pickle.dumps(prepare))(IMAGE), crop(12, IMAGE))


def test_what_is_stored_is_what_is_read():
    mean_3 = torch.tensor([0.1, 0.2, 1 / 3])
    one = Preprocessing(224, tuple(mean_3.tolist()), (0.2, 0.3, 0.4), "deepmind")
    again = Preprocessing.from_json(json.loads(json.dumps(one.as_json())))
    assert again == one
    assert torch.equal(torch.tensor(again.mean), mean_3)
