import torch
from torch import nn

from semppl.evaluate.features import extract_features


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
