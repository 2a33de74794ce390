"""Kernels for small arrays, each a table of addresses by dtype (0: none yet)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...native.runtime.background_jit import Small
from ...tensor.dtypes import FLOAT32, FLOAT64

MOST = 1 << 12  # elements that count as small


def _table(name: str, *settings: Any) -> Small:
    def build(kind: np.dtype) -> Any:
        from ...native.kernels import attention_softmax, row_kernels, small_arrays
        from ...native.loop_ir.ir import Type

        if kind != FLOAT32 and kind != FLOAT64:
            raise NotImplementedError(f"a small kernel of {kind}")
        result = next(
            getattr(file, name)
            for file in (small_arrays, row_kernels, attention_softmax)
            if hasattr(file, name)
        )
        return result(Type(kind.name), *settings)

    return Small(build)


SOFTMAX, LOG_SOFTMAX = _table("softmax"), _table("log_softmax")
CROSS_ENTROPY = {mean: _table("cross_entropy", mean) for mean in (False, True)}
CROSS_ENTROPY_BACKWARD = _table("cross_entropy_backward")
LAYER_NORM = {(weight, bias): _table("layer_norm", weight, bias)
              for weight in (False, True) for bias in (False, True)}
LAYER_NORM_BACKWARD = {weight: _table("layer_norm_backward", weight) for weight in (False, True)}
LAYER_NORM_SUMS = _table("layer_norm_sums")
PROBABILITIES = {causal: _table("probabilities", causal) for causal in (False, True)}
