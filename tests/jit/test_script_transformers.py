"""Transformer layers in archives: masks of both kinds, encoders, decoders."""

from __future__ import annotations

import io
from typing import Any

import pytest

import flambeau


def programs(torch: Any) -> dict[str, tuple[Any, tuple, dict[str, Any]]]:
    """Modules with their arguments."""
    nn, options = torch.nn, {"dim_feedforward": 16, "dropout": 0.0, "batch_first": True}
    torch.manual_seed(0)
    x, memory = torch.randn(2, 4, 8), torch.randn(2, 3, 8)
    causal = nn.Transformer.generate_square_subsequent_mask(4)
    padding = torch.tensor([[False, False, False, True], [False] * 4])
    layer = nn.TransformerEncoderLayer(8, 2, activation="gelu", norm_first=True, **options)
    masked = {"mask": causal, "src_key_padding_mask": padding.float() * -1e9}
    return {
        "bool masks": (nn.MultiheadAttention(8, 2, batch_first=True), (x, x, x), {
            "attn_mask": causal < 0, "key_padding_mask": padding}),
        "mask of heads": (nn.MultiheadAttention(8, 2, kdim=8, vdim=8, batch_first=True),
                          (x, x, x), {"attn_mask": causal.repeat(4, 1, 1),
                                      "average_attn_weights": False}),
        "other widths": (nn.MultiheadAttention(8, 2, kdim=5, vdim=3), (
            x, torch.randn(2, 4, 5), torch.randn(2, 4, 3)), {"need_weights": True}),
        "without a batch": (nn.MultiheadAttention(8, 2), (x[0], x[0], x[0]), {
            "attn_mask": causal, "key_padding_mask": padding[0]}),
        "encoder layer": (layer, (x,), {"src_mask": causal}),
        "encoder": (nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (x,), masked),
        "decoder layer": (nn.TransformerDecoderLayer(8, 2, **options), (x, memory), {
            "tgt_mask": causal, "memory_key_padding_mask": padding[:, 1:]}),
        "decoder": (nn.TransformerDecoder(nn.TransformerDecoderLayer(
            8, 2, norm_first=True, **options), 2, nn.LayerNorm(8)), (x, memory), {}),
        "transformer": (nn.Transformer(8, 2, 1, 1, **options), (memory, x), {"tgt_mask": causal}),
    }


NAMES = tuple(programs(flambeau))


def leaves(value: Any) -> list[Any]:
    """Results as arrays."""
    parts = value if isinstance(value, tuple) else (value,)
    return [None if part is None else part.detach().numpy() for part in parts]


def assert_alike(results: list[Any], expected: list[Any]) -> None:
    """Compare two lists of arrays."""
    for result, value in zip(results, expected, strict=True):
        assert value is None and result is None or abs(result - value).max() < 1e-5


def archive_of(torch: Any, module: Any) -> io.BytesIO:
    """The archive of a scripted module."""
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(module.eval()), file)
    file.seek(0)
    return file


@pytest.mark.parametrize("name", NAMES)
def test_an_archive_computes_what_the_layer_does(torch: Any, name: str) -> None:
    module, args, kwargs = programs(torch)[name]
    loaded = torch.jit.load(archive_of(torch, module))
    with torch.no_grad():
        assert_alike(leaves(loaded(*args, **kwargs)), leaves(module(*args, **kwargs)))


@pytest.mark.parity
@pytest.mark.parametrize("name", NAMES)
def test_pytorch_computes_the_same_from_the_archive(name: str) -> None:
    pytorch = pytest.importorskip("torch")
    module, args, kwargs = programs(flambeau)[name]

    def theirs(value: Any) -> Any:
        return pytorch.from_numpy(value.numpy().copy()) if hasattr(value, "numpy") else value

    loaded = pytorch.jit.load(archive_of(flambeau, module))
    result = loaded(*map(theirs, args), **{k: theirs(v) for k, v in kwargs.items()})
    assert_alike(leaves(result), leaves(module(*args, **kwargs)))
