import torch
from tests.conftest import stripes

from semppl.evaluate.baselines import train_supervised_
from semppl.evaluate.features import extract_features
from semppl.nets.encoder import create_encoder
from semppl.views.recipe import View


def supervised(seed):
    torch.manual_seed(3)
    labels = torch.arange(12) % 3
    images = torch.from_numpy(stripes(labels.tolist()))[:, None].expand(-1, 3, -1, -1)
    encoder = create_encoder("resnet10", width=0.0625, stem="small", last_scale=1.0)
    mean, std = torch.full((3,), 0.15), torch.full((3,), 0.3)
    head = train_supervised_(
        encoder,
        images,
        labels,
        num_features=encoder.num_features,
        classes=3,
        view=View(size=8, min_area=0.9, flip=0.0, jitter=0.0, grey=0.0),
        mean_3=mean,
        std_3=std,
        steps=40,
        seed=seed,
    )
    features = extract_features(encoder, images, size=8, mean_3=mean, std_3=std)
    return head(features).argmax(1), labels, head


def test_it_learns_its_labels():
    predicted, labels, _ = supervised(seed=0)
    assert (predicted == labels).float().mean() > 0.9


def test_it_is_a_function_of_the_seed():
    assert torch.equal(supervised(0)[2].weight, supervised(0)[2].weight)
    assert not torch.equal(supervised(0)[2].weight, supervised(1)[2].weight)
