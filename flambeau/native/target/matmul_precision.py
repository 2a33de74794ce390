"""How much of float32 numbers counts in matrix products: what set_float32_matmul_precision says."""

from __future__ import annotations

PARTS = {"highest": 3, "high": 2, "medium": 1}  # bfloat16 numbers that make one of float32


class Chosen:
    """What was asked for, for the whole process."""

    name = "highest"
    parts = PARTS[name]


def choose(name: str) -> None:
    """'highest', 'high' or 'medium'."""
    Chosen.name, Chosen.parts = name, PARTS[name]
