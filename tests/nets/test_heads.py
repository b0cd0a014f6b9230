import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from semppl.nets.heads import Projected, create_head, unit


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize(
    ("inputs", "millions"), [(2048, 9.449), (256, 2.109)], ids=["projector", "predictor"]
)
def test_heads_have_the_papers_number_of_parameters(inputs, millions):
    with torch.device("meta"):
        head = create_head(inputs)
    assert round(sum(parameter.numel() for parameter in head.parameters()) / 1e6, 3) == millions


def test_the_first_layer_of_the_projector_has_a_bias_and_the_last_has_none():
    with torch.device("meta"):
        head = create_head(2048)
    assert [type(layer) for layer in head] == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear]
    assert sum(parameter.numel() for layer in head[:2] for parameter in layer.parameters()) == 8_400_896
    assert head[0].bias.shape == (4096,)
    assert head[3].bias is None
    assert head[3].weight.shape == (256, 4096)


def test_a_head_is_linear_norm_relu_linear_computed_by_hand():
    torch.manual_seed(0)
    head = create_head(5, hidden=7, outputs=3).double()
    nn.init.uniform_(head[0].bias)
    nn.init.uniform_(head[1].weight, 0.5, 2.0)
    nn.init.uniform_(head[1].bias, -1.0, 1.0)
    x = torch.randn(6, 5, generator=_generator(), dtype=torch.double)
    hidden = x @ head[0].weight.T + head[0].bias
    variance = ((hidden - hidden.mean(0)) ** 2).mean(0)
    normed = (hidden - hidden.mean(0)) / (variance + 1e-5).sqrt() * head[1].weight + head[1].bias
    expected = normed.clamp(min=0) @ head[3].weight.T
    assert torch.allclose(head(x), expected, atol=1e-12)


def test_heads_start_with_haikus_weights():
    torch.manual_seed(0)
    head = create_head(64, hidden=256, outputs=32)
    assert (head[0].bias == 0).all()
    assert head[0].weight.abs().max() <= 2 / 8
    assert head[3].weight.abs().max() <= 2 / 16
    assert head[0].weight.std().item() == pytest.approx(0.88 / 8, rel=0.03)
    assert head[3].weight.std().item() == pytest.approx(0.88 / 16, rel=0.03)


def test_projected_puts_the_projector_after_the_encoder():
    torch.manual_seed(0)
    encoder, projector = nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.Tanh()), nn.Linear(5, 2)
    net = Projected(encoder, projector)
    images = torch.randn(4, 3, 2, 2, generator=_generator())
    expected = torch.tanh(images.flatten(1) @ encoder[1].weight.T + encoder[1].bias) @ projector.weight.T
    assert torch.allclose(net(images), expected + projector.bias, atol=1e-6)
    names = ["encoder.1.weight", "encoder.1.bias", "projector.weight", "projector.bias"]
    assert [name for name, _ in net.named_parameters()] == names


def test_a_three_four_five_vector_is_divided_by_five():
    assert torch.allclose(
        unit(torch.tensor([[3.0, 4.0], [0.0, -5.0]])), torch.tensor([[0.6, 0.8], [0.0, -1]])
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_embeddings_have_norm_one_in_float32_whatever_the_precision_before(dtype):
    x = torch.randn(20, 256, generator=_generator()).to(dtype)
    normed = unit(x)
    assert normed.dtype == torch.float32
    assert (normed.double().square().sum(1) - 1).abs().max() < 1e-6
    exact = x.double() / x.double().square().sum(1, keepdim=True).sqrt()
    assert (normed.double() - exact).abs().max() < 1e-6


def test_half_precision_vectors_too_long_for_their_own_format_are_normalised():
    assert torch.allclose(unit(torch.full((1, 16), 60_000.0, dtype=torch.float16)), torch.tensor(0.25))


@settings(deadline=None, max_examples=30)
@given(scale=st.floats(1e-3, 1e6))
def test_the_length_of_an_embedding_does_not_matter(scale):
    x = torch.randn(3, 8, generator=_generator())
    assert torch.allclose(unit(x * scale), unit(x), atol=1e-6)


def test_only_the_last_axis_is_normalised():
    x = torch.randn(2, 3, 4, generator=_generator())
    expected = torch.stack([torch.stack([row / row.square().sum().sqrt() for row in rows]) for rows in x])
    assert torch.allclose(unit(x), expected, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_zero_vector_has_a_finite_value_and_a_finite_gradient(dtype):
    x = torch.tensor([[0.0, 0.0, 0.0], [1.0, 2.0, 2.0]], dtype=dtype, requires_grad=True)
    normed = unit(x)
    normed[:, 0].sum().backward()
    assert torch.equal(normed[0], torch.zeros(3))
    assert torch.isfinite(x.grad).all()
    # d(x₁/‖x‖)/dx = (e₁ − x₁x/‖x‖²)/‖x‖ at (1, 2, 2)
    assert torch.allclose(x.grad[1].float(), torch.tensor([8.0, -2.0, -2.0]) / 27, rtol=1e-2)


def test_vectors_shorter_than_a_millionth_are_divided_by_a_millionth():
    assert torch.allclose(unit(torch.tensor([[3e-8, 4e-8]])), torch.tensor([[0.03, 0.04]]))
