"""Attention with its projections and an encoder's layer, as one function each."""

from __future__ import annotations


def _attention(torch, width):
    layer = torch.nn.MultiheadAttention(width, 2, batch_first=True).eval()
    return layer, (layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight,
                   layer.out_proj.bias)


def test_attention(torch):
    layer, weights = _attention(torch, 8)
    x = torch.rand(2, 5, 8)
    padded = torch.zeros(2, 5, dtype=torch.bool)
    padded[1, 3:] = True
    with torch.inference_mode():
        for average in (True, False):
            y, shares = torch._native_multi_head_attention(
                x, x, x, 8, 2, *weights, padded, True, average, 1)
            expected = layer(x, x, x, padded, average_attn_weights=average)
            torch.testing.assert_close(y, expected[0])
            torch.testing.assert_close(shares, expected[1])
        y, nothing = torch._native_multi_head_attention(x, x, x, 8, 2, *weights, None, False)
        torch.testing.assert_close(y, layer(x, x, x)[0])
    assert nothing is None or nothing.numel() == 0


def test_projections(torch):
    qkv, bias = torch.rand(2, 5, 24), torch.rand(24)
    with torch.inference_mode():
        parts = torch._transform_bias_rescale_qkv(qkv, bias, 2)
    expected = [(qkv + bias)[..., 8 * i:8 * i + 8].unflatten(-1, (2, 4)).transpose(1, 2)
                for i in range(3)]
    torch.testing.assert_close(parts[0], expected[0] / 2)
    torch.testing.assert_close(parts[1], expected[1])
    torch.testing.assert_close(parts[2], expected[2])


def test_encoder_layer(torch):
    for norm_first in (True, False):
        layer = torch.nn.TransformerEncoderLayer(
            8, 2, 16, batch_first=True, norm_first=norm_first, activation="gelu").eval()
        attention = layer.self_attn
        x = torch.rand(2, 5, 8)
        with torch.inference_mode():
            y = torch._transformer_encoder_layer_fwd(
                x, 8, 2, attention.in_proj_weight, attention.in_proj_bias,
                attention.out_proj.weight, attention.out_proj.bias, True, norm_first, 1e-5,
                layer.norm1.weight, layer.norm1.bias, layer.norm2.weight, layer.norm2.bias,
                layer.linear1.weight, layer.linear1.bias, layer.linear2.weight,
                layer.linear2.bias)
            torch.testing.assert_close(y, layer(x))
