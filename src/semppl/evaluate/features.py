"""Features of whole images from a frozen encoder. Shapes: N images, F features."""

import torch
from torch import Tensor, nn

from semppl.views.whole import whole_view


@torch.no_grad()
def extract_features(
    encoder: nn.Module,
    images_N3HW: Tensor,
    *,
    size: int,
    mean_3: Tensor,
    std_3: Tensor,
    batch_size: int = 512,
) -> Tensor:
    """Features [N, F] in evaluation mode, float32 on the CPU; the encoder comes back in its own mode."""
    training = encoder.training
    encoder.eval()
    parts = [
        encoder(whole_view(images, size, mean_3, std_3)).float().cpu()
        for images in images_N3HW.split(batch_size)
    ]
    encoder.train(training)
    return torch.cat(parts)
