"""Projector g and predictor h (paper, section 2.1), and the networks made of them."""

from typing import final

from torch import Tensor, nn
from torch.nn import functional as F

from semppl.nets.initialise import initialise_


def create_head(inputs: int, hidden: int = 4096, outputs: int = 256) -> nn.Sequential:
    """Linear with bias → batch norm → ReLU → linear without bias."""
    head = nn.Sequential(
        nn.Linear(inputs, hidden),
        nn.BatchNorm1d(hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, outputs, bias=False),
    )
    initialise_(head)
    return head


@final
class Projected(nn.Module):
    """g∘f: images → projections. The target network averages this one."""

    def __init__(self, encoder: nn.Module, projector: nn.Module) -> None:
        super().__init__()
        self.encoder, self.projector = encoder, projector

    def forward(self, images_BCHW: Tensor) -> Tensor:
        """Projections before normalisation."""
        return self.projector(self.encoder(images_BCHW))


def unit(embeddings_D: Tensor) -> Tensor:
    """l2-normalised in float32, whatever the precision of the network: x / √max(Σx², 1e-12)."""
    return F.normalize(embeddings_D.float(), dim=-1, eps=1e-6)
