"""Kernels of several lengths become one where only extents and strides follow from the length."""

from __future__ import annotations

import numpy as np
import pytest

from flambeau.compiler.fusion.placement import Allocation, Home
from flambeau.compiler.schedule.polynomials import NoCommonForm
from flambeau.compiler.schedule.sized_kernels import CommonTasks
from flambeau.compiler.schedule.tasks import Task
from flambeau.native.jit.kernel_function import compile_kernel
from flambeau.native.loop_ir.ir import (
    Affine, Apply, Buffer, Constant, Index, Kernel, Load, Loop, LoopKind, Scalar, Store, Type,
)

LENGTHS = (5, 11, 17, 29)


def make_task(length: int, extent: int, start: int = 0, factor: float = 2.0) -> Task:
    """y[i, j] = x[j, i] * factor for `extent` columns j; x has `length` columns."""
    x, y, i, j = Buffer(Type.F32, "x"), Buffer(Type.F32, "y"), Index("i"), Index("j")
    value = Apply(Scalar.MUL, (Load(x, Affine(start, ((j, 3), (i, 1)))),
                               Constant(Type.F32, factor)), Type.F32)
    inner = Loop(j, extent, [Store(y, Affine(0, ((i, length), (j, 1))), value)],
                 LoopKind.VECTORIZED)
    kernel = Kernel("turn", [x, y], [Loop(i, 3, [inner])])
    memories = [Allocation(home, Type.F32, 3 * length) for home in (Home.SOURCE, Home.OUTPUT)]
    return Task("turn", kernel, memories)


def test_extents_strides_starts_and_numbers_follow_from_the_length() -> None:
    plans = [[make_task(n, n - 2, 2 * n, n + 1)] for n in LENGTHS]
    (sized,) = CommonTasks(LENGTHS, plans, 4096).tasks
    assert [start if isinstance(start, int) else start(100) for start in sized.starts] == [200, 0]
    function = compile_kernel(sized.kernel)
    for n in (3, 29, 100):
        x, y = np.arange(3.0 * n, dtype=np.float32), np.zeros((3, n), np.float32)
        function.run([x, y], [size(n) for size in sized.sizes])
        wanted = np.zeros((3, n), np.float32)
        wanted[:, : n - 2] = x.reshape(n, 3)[: n - 2].T * (n + 1)
        np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("make", [
    lambda n: [make_task(n, -(-n // 4))],  # blocks
    lambda n: [make_task(n, n, factor=1 / n)],
    lambda n: [make_task(n, n)] * (1 + n // 11),
])
def test_what_does_not_follow_is_refused(make) -> None:
    with pytest.raises(NoCommonForm):
        CommonTasks(LENGTHS, [make(n) for n in LENGTHS], 4096)
