"""flex_attention against scaled_dot_product_attention with the mask or bias written out."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.nn import functional as F
from flambeau.nn.attention.flex_attention import (
    AuxRequest, BlockMask, and_masks, create_block_mask, create_mask, flex_attention, or_masks,
)


def causal(b, h, q, kv):
    return q >= kv


def qkv(heads=2, length=6):
    torch.manual_seed(0)
    return [torch.randn(2, heads, length, 8) for _ in range(3)]


def test_causal_mask_and_gradients():
    q, k, v = (t.requires_grad_() for t in qkv())
    mask = create_block_mask(causal, None, None, 6, 6)
    y = flex_attention(q, k, v, block_mask=mask)
    torch.testing.assert_close(y, F.scaled_dot_product_attention(q, k, v, is_causal=True))
    gradients = torch.autograd.grad(y.square().sum(), (q, k, v))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    for x, other in zip(gradients, torch.autograd.grad(y.square().sum(), (q, k, v)), strict=True):
        torch.testing.assert_close(x, other)


def test_scores_by_place():
    q, k, v = qkv()
    table = torch.randn(2, 11)

    def relative(score, b, h, q_idx, kv_idx):
        return score + table[h, q_idx - kv_idx + 5]

    at = torch.arange(6)
    bias = table[:, at[:, None] - at + 5]
    torch.testing.assert_close(flex_attention(q, k, v, relative, scale=0.5),
                               F.scaled_dot_product_attention(q, k, v, bias, scale=0.5)
                               )


def test_documents_grouped_heads_and_rows_without_keys():
    q, (_, k, v) = qkv(4)[0], qkv(2)
    document = torch.tensor([0, 0, 0, 1, 1, 2])

    def same(b, h, q_idx, kv_idx):
        return (document[q_idx] == document[kv_idx]) & (q_idx < 5)

    mask = create_block_mask(and_masks(same, causal), 2, 4, 6, 6)
    y, aux = flex_attention(q, k, v, block_mask=mask, enable_gqa=True,
                            return_aux=AuxRequest(lse=True, max_scores=True))
    dense = create_mask(and_masks(same, causal), None, None, 6, 6)
    wanted = F.scaled_dot_product_attention(q, k, v, dense, enable_gqa=True)
    torch.testing.assert_close(y[..., :5, :], wanted[..., :5, :])
    assert not y[..., 5, :].any()
    assert aux.lse[..., 5].isneginf().all() and aux.max_scores.shape == (2, 4, 6)


def test_blocks():
    mask = create_block_mask(causal, 1, 1, 300, 300)
    assert (mask.shape, mask.numel(), mask.BLOCK_SIZE) == ((1, 1, 300, 300), 90000, (128, 128))
    assert mask.sparsity() == pytest.approx(-9.2266666)
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 3]]]
    assert mask.kv_indices.tolist() == [[[[0, 1, 2], [1, 0, 2], [0, 1, 2]]]]
    assert mask.full_kv_num_blocks.tolist() == [[[0, 1, 0]]]
    assert mask.q_num_blocks.tolist() == [[[2, 2, 1]]]
    assert mask.q_indices.tolist() == [[[[0, 2, 1], [1, 2, 0], [2, 0, 1]]]]
    assert mask.to_dense().tolist() == [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]]
    assert mask._adjust(200, 100).to_dense().tolist() == [[[[1], [1]]]]
    assert "sparsity=-9.23%" in str(mask)
    assert isinstance(mask.to("cpu")[0], BlockMask)
    whole = create_block_mask(or_masks(causal, lambda b, h, q, kv: q < kv), 1, 1, 128, 128)
    assert whole.sparsity() == 0 and whole.kv_num_blocks.sum() == 0


def test_what_is_refused():
    q, k, v = qkv()
    with pytest.raises(ValueError, match="Try setting enable_gqa=True"):
        flex_attention(q, k[:, :1], v)
    with pytest.raises(NotImplementedError, match="must be 4D tensors"):
        flex_attention(q[0], k, v)
    with pytest.raises(ValueError, match=r"block_mask._adjust\(q_len, kv_len\)"):
        flex_attention(q, k, v, block_mask=create_block_mask(causal, 1, 1, 8, 8))
    with pytest.warns(FutureWarning, match="return_lse is deprecated"):
        assert len(flex_attention(q, k, v, return_lse=True)) == 2
