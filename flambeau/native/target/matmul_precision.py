"""How much of float32 numbers counts in matrix products: what set_float32_matmul_precision says."""

from __future__ import annotations

BF16_TERMS = {"highest": 3, "high": 2, "medium": 1}  # bfloat16 numbers that make one of float32


class MatmulPrecision:
    """What was asked for, for the whole process."""

    name = "highest"
    parts = BF16_TERMS[name]


def set_precision(name: str) -> None:
    """'highest', 'high' or 'medium'."""
    MatmulPrecision.name, MatmulPrecision.parts = name, BF16_TERMS[name]
