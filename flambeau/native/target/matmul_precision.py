"""Precision of float32 matrix products: the setting of set_float32_matmul_precision."""

from __future__ import annotations

BF16_TERMS = {"highest": 3, "high": 2, "medium": 1}  # bfloat16 terms that represent a float32


class MatmulPrecision:
    """The setting of this process."""

    name = "highest"
    parts = BF16_TERMS[name]


def set_precision(name: str) -> None:
    """Set the precision: 'highest', 'high' or 'medium'."""
    MatmulPrecision.name, MatmulPrecision.parts = name, BF16_TERMS[name]
