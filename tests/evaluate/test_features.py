import torch
from torch import nn

from semppl.evaluate.features import encoded, extract_features


class Mean(nn.Module):
    def forward(self, x):
        assert not self.training
        return x.mean((2, 3))


def test_features_are_of_whole_normalised_images_in_order():
    images = torch.randint(256, (7, 3, 4, 4), dtype=torch.uint8)
    mean, std = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.5, 1.0, 2.0])
    encoder = Mean().train()
    features = extract_features(encoder, images, size=4, mean_3=mean, std_3=std, batch_size=3)
    expected = (images.float().mean((2, 3)) / 255 - mean) / std
    assert torch.allclose(features, expected, atol=1e-6)
    assert encoder.training
    assert not features.requires_grad


def test_features_go_where_they_are_wanted_and_images_are_prepared_as_told():
    images = torch.randint(256, (7, 3, 4, 4), dtype=torch.uint8)
    zero, one, told = torch.zeros(3), torch.ones(3), []
    out = torch.full((7, 3), torch.nan)
    given = extract_features(
        Mean(),
        images,
        size=4,
        mean_3=zero,
        std_3=one,
        batch_size=3,
        prepare=lambda x: 255 - x,
        out_NF=out,
        advance=told.append,
    )
    assert given is out
    assert torch.allclose(out, 1 - images.float().mean((2, 3)) / 255, atol=1e-6)
    assert told == [3, 6, 7]


def test_the_mode_comes_back_even_if_nobody_takes_all():
    encoder = Mean().train()
    parts = encoded(encoder, [torch.zeros(1, 3, 2, 2)] * 3)
    assert not next(parts).requires_grad
    parts.close()
    assert encoder.training
