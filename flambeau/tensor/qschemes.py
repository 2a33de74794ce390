"""Quantization schemes: which numbers share a scale and a zero point."""

from __future__ import annotations


class qscheme:
    """How a quantized tensor's integers stand for numbers.

    >>> torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8).qscheme()
    torch.per_tensor_affine
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


per_tensor_affine = qscheme("per_tensor_affine")
per_channel_affine = qscheme("per_channel_affine")
per_tensor_symmetric = qscheme("per_tensor_symmetric")
per_channel_symmetric = qscheme("per_channel_symmetric")
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams")

QSCHEMES = {
    scheme.name: scheme
    for scheme in (per_tensor_affine, per_channel_affine, per_tensor_symmetric,
                   per_channel_symmetric, per_channel_affine_float_qparams)
}
