"""QuantType: when a model's activations are quantized."""

from __future__ import annotations

import enum


class QuantType(enum.IntEnum):
    """By spans as the model computes, by scales known before, while it trains, or not at all."""

    DYNAMIC = 0
    STATIC = 1
    QAT = 2
    WEIGHT_ONLY = 3


def _get_quant_type_to_str(quant_type: QuantType) -> str:
    return QuantType(quant_type).name.lower()


def _quant_type_from_str(name: str) -> QuantType:
    try:
        return QuantType[name.upper()]
    except KeyError:
        raise ValueError(f"Quantization type '{name}' is not recognized.") from None


__all__ = ["QuantType"]
