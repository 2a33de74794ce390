"""torch.nn.attention.bias: causal masks by name, on flambeau and on PyTorch."""

import importlib

import pytest


@pytest.fixture
def bias(torch):
    return importlib.import_module(f"{torch.__name__}.nn.attention.bias")


@pytest.mark.parametrize("variant", ["causal_upper_left", "causal_lower_right"])
@pytest.mark.parametrize("size", [(4, 4), (3, 5)])
def test_attention_equals_that_under_the_mask(torch, bias, variant, size):
    torch.manual_seed(0)
    query = torch.randn(2, 2, size[0], 8, requires_grad=True)
    key, value = torch.randn(2, 2, 2, size[1], 8)
    mask = getattr(bias, variant)(*size)
    shift = size[1] - size[0] if variant.endswith("right") else 0
    dense = torch.ones(size, dtype=torch.bool).tril(shift)
    attend = torch.nn.functional.scaled_dot_product_attention
    y, expected = attend(query, key, value, mask), attend(query, key, value, dense)
    assert torch.allclose(y, expected, atol=1e-6)
    gradients = [torch.autograd.grad(out.square().sum(), query)[0] for out in (y, expected)]
    assert torch.allclose(*gradients, atol=1e-5)
    assert repr(mask) == repr(dense)


def test_misuse_is_refused_as_in_pytorch(torch, bias):
    x = torch.ones(1, 1, 3, 4)
    attend = torch.nn.functional.scaled_dot_product_attention
    with pytest.raises(ValueError, match="CausalBias should not be used with causal=True"):
        attend(x, x, x, bias.causal_lower_right(3, 3), is_causal=True)
    with pytest.raises(AssertionError, match="causal_upper_left only supports 2D tensors"):
        bias.causal_upper_left(3)
    with pytest.raises(AssertionError, match="variant must be a CausalVariant, got int"):
        bias.CausalBias(1, 2, 3)
    with pytest.warns(UserWarning, match="Lower right causal bias will produce NaNs"):
        bias.causal_lower_right(4, 3)


def test_the_tensor_itself_has_pytorchs_shape(torch, bias):
    assert bias.causal_upper_left(2, 3).shape == (1, 2, 3)
    assert bias.causal_lower_right(2, 3).shape == (2, 2, 3)
    assert bias.CausalVariant.LOWER_RIGHT == 2
