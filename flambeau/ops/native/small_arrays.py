"""Kernels for small arrays, each a table of addresses by dtype (0: none yet)."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from ...native.runtime import eager_kernels as kernels
from ...native.runtime.background_jit import SmallArrayKernels
from ...native.runtime.eager_kernels import EagerKernel
from ...tensor.dtypes import FLOAT32, FLOAT64


def _create_table(builder: EagerKernel, *settings: Any) -> SmallArrayKernels:
    def build(kind: np.dtype) -> Any:
        if kind != FLOAT32 and kind != FLOAT64:
            raise NotImplementedError(f"a small kernel of {kind}")
        return builder.build(kind.name, *settings)

    return SmallArrayKernels(build)


SOFTMAX = _create_table(kernels.SMALL_SOFTMAX)
LOG_SOFTMAX = _create_table(kernels.SMALL_LOG_SOFTMAX)
CROSS_ENTROPY = {mean: _create_table(kernels.SMALL_CROSS_ENTROPY, mean) for mean in (False, True)}
CROSS_ENTROPY_BACKWARD = _create_table(kernels.SMALL_CROSS_ENTROPY_BACKWARD)
BATCH_NORM = {settings: _create_table(kernels.BATCH_NORM, *settings)
              for settings in product((False, True), repeat=4)}  # weight, bias, running, columns
BATCH_NORM_BACKWARD = {settings: _create_table(kernels.BATCH_NORM_BACKWARD, *settings)
                       for settings in product((False, True), repeat=2)}  # weight, columns
LAYER_NORM = {(weight, bias): _create_table(kernels.LAYER_NORM, weight, bias)
              for weight in (False, True) for bias in (False, True)}
LAYER_NORM_BACKWARD = {
    weight: _create_table(kernels.LAYER_NORM_BACKWARD, weight) for weight in (False, True)}
LAYER_NORM_SUMS = _create_table(kernels.LAYER_NORM_SUMS)
PROBABILITIES = {
    causal: _create_table(kernels.ATTENTION_PROBABILITIES, causal) for causal in (False, True)}
