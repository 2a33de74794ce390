"""The reductions of MaskedTensors, by name and as overload packets."""

from __future__ import annotations

from ...ops.core.aten import aten

REDUCE_NAMES = """
    sum mean amin amax argmin argmax prod all norm var std
""".split()

NATIVE_REDUCE_FNS = [getattr(aten, name) for name in REDUCE_NAMES]
