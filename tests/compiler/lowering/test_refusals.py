"""What a refusal to lower leaves behind: nothing."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

from flambeau.compiler.ir.graph import Node, Op
from flambeau.compiler.lowering import NotLowered, lower
from flambeau.native.loop_ir.ir import Type
from flambeau.ops.core.operator import OPERATORS


def test_refusals_of_lapack_cost_no_references():
    """SciPy's wrappers let go of a dtype once too often where they refuse an argument."""
    kind = np.dtype(np.float32)
    matrix = Node(Op.INPUT, (), (3, 3), Type.F32, {"slot": 0})

    def refused() -> int:
        for _ in range(50):
            with pytest.raises(NotLowered):
                lower(OPERATORS["_lu_factor_ex"], (matrix,), {})
        gc.collect()
        return sys.getrefcount(kind)

    refused()
    before = refused()
    assert refused() > before - 20
