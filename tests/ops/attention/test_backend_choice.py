"""Settings of attention's implementations: what PyTorch refuses by them is refused."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture
def attention(torch):
    return importlib.import_module(f"{torch.__name__}.nn.attention")


@pytest.fixture
def attend(torch):
    return torch.nn.functional.scaled_dot_product_attention


def test_only_one_implementation_allowed(torch, attention, attend):
    x, backend = torch.randn(1, 2, 4, 8), attention.SDPBackend
    assert torch.backends.cuda.SDPBackend is backend is torch._C._SDPBackend
    with attention.sdpa_kernel(backend.FLASH_ATTENTION):
        assert not torch.backends.cuda.math_sdp_enabled()
        attend(x, x, x)
        with pytest.raises(RuntimeError, match="No available kernel"):
            attend(x, x, x, dropout_p=0.5)
        with pytest.raises(RuntimeError, match="No available kernel"):
            attend(x[0], x[0], x[0])
    with attention.sdpa_kernel([backend.EFFICIENT_ATTENTION]), \
            pytest.raises(RuntimeError, match="No viable backend for scaled_dot_product_attention"):
        attend(x, x, x)
    assert torch.backends.cuda.math_sdp_enabled()


def test_a_mask_beside_is_causal(torch, attend):
    x, mask = torch.randn(1, 2, 4, 8), torch.ones(4, 4, dtype=torch.bool)
    attend(x, x, x, mask, is_causal=True)
    for case in ({"dropout_p": 0.5}, {}):
        operand = x if case else x[0]
        with pytest.raises(RuntimeError, match="Explicit attn_mask should not be set"):
            attend(operand, operand, operand, mask, is_causal=True, **case)


def test_the_choice_has_a_number(torch):
    x = torch.randn(1, 2, 4, 8)
    assert torch._fused_sdp_choice(x, x, x) == 1
    assert torch._fused_sdp_choice(x, x, x, dropout_p=0.5) == 0
    assert torch._fused_sdp_choice(x[0], x[0], x[0]) == 0
