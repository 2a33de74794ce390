"""Kernels for small arrays, each a table of addresses by dtype (0: none yet)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...native.runtime.background_jit import Small
from ...native.runtime.kernel_builder import KernelBuilder
from ...tensor.dtypes import FLOAT32, FLOAT64


def _table(builder: KernelBuilder, *settings: Any) -> Small:
    def build(kind: np.dtype) -> Any:
        if kind != FLOAT32 and kind != FLOAT64:
            raise NotImplementedError(f"a small kernel of {kind}")
        return builder.build(kind.name, *settings)

    return Small(build)


_CROSS_ENTROPY = KernelBuilder("small_arrays", "cross_entropy")
_LAYER_NORM = KernelBuilder("softmax_and_layer_norm", "layer_norm")
_LAYER_NORM_BACKWARD = KernelBuilder("softmax_and_layer_norm", "layer_norm_backward")
SCORES_TO_PROBABILITIES = KernelBuilder("softmax_and_layer_norm", "probabilities")

SOFTMAX = _table(KernelBuilder("small_arrays", "softmax"))
LOG_SOFTMAX = _table(KernelBuilder("small_arrays", "log_softmax"))
CROSS_ENTROPY = {mean: _table(_CROSS_ENTROPY, mean) for mean in (False, True)}
CROSS_ENTROPY_BACKWARD = _table(KernelBuilder("small_arrays", "cross_entropy_backward"))
LAYER_NORM = {(weight, bias): _table(_LAYER_NORM, weight, bias)
              for weight in (False, True) for bias in (False, True)}
LAYER_NORM_BACKWARD = {weight: _table(_LAYER_NORM_BACKWARD, weight) for weight in (False, True)}
LAYER_NORM_SUMS = _table(KernelBuilder("softmax_and_layer_norm", "layer_norm_sums"))
PROBABILITIES = {causal: _table(SCORES_TO_PROBABILITIES, causal) for causal in (False, True)}
