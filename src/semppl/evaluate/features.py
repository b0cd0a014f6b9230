"""Features of whole images from a frozen encoder. Shapes: N images, F features."""

import torch
from torch import Tensor, nn

from semppl.views.geometry import resize_whole
from semppl.views.photometric import normalise


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
    training, device = encoder.training, mean_3.device
    encoder.eval()
    parts = []
    for images in images_N3HW.split(batch_size):
        views = resize_whole(images.to(device), size).float() / 255
        parts.append(encoder(normalise(views, mean_3, std_3)).float().cpu())
    encoder.train(training)
    return torch.cat(parts)
