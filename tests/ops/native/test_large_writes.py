"""Large writes in place run kernels, and read nothing that they have written."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

import flambeau as torch
from flambeau.ops.native import pointwise

WRITES = {
    "array": lambda x, y: x.add_(y), "number": lambda x, y: x.mul_(0.3),
    "itself": lambda x, y: x.mul_(x), "one element": lambda x, y: x.sub_(y[5, 7]),
    "a window": lambda x, y: x[10:].add_(y[:290]), "operator": lambda x, y: x.__imul__(y),
    "turned": lambda x, y: x.add_(y.t()), "columns": lambda x, y: (x[:, 10:].mul_(y[:, 10:]), x)[1],
    "row": lambda x, y: x.mul_(y[0].clone()), "column": lambda x, y: x.sub_(y[:, :1]),
    "own column": lambda x, y: x.mul_(x[:, :1]), "own column, weighted": lambda x, y: x.add_(
        x[:, 5:6], alpha=0.5),
    "weight": lambda x, y: x.add_(y, alpha=0.1), "three": lambda x, y: x.addcmul_(y, y[:1]),
    "clipped": lambda x, y: x.clamp_(-0.5, 0.5), "blend": lambda x, y: x.lerp_(y, 0.25),
    "integers": lambda x, y: (x * 9).long().add_(y.long()),
}


@pytest.mark.parametrize("name", WRITES)
def test_large_writes_in_place(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They run a kernel, once it is compiled, without the checks of other calls."""
    torch.manual_seed(0)
    x, y = torch.randn(300, 300), torch.randn(300, 300)
    with monkeypatch.context() as m:
        m.setattr(pointwise.KernelPolicy, "allowed", False)
        wanted = WRITES[name](x.clone(), y)
    written = []
    real = pointwise.call_kernel
    monkeypatch.setattr(pointwise, "call_kernel",
                        lambda *a: (written.append(sys._getframe(1).f_code.co_name), real(*a)))
    until = time.monotonic() + 120
    straight = name in ("array", "number", "itself", "operator")
    while "write_straight" not in written if straight else not written:
        assert time.monotonic() < until, "no kernel came"
        torch.testing.assert_close(WRITES[name](x.clone(), y), wanted, rtol=1e-6, atol=1e-7)
        time.sleep(0.002)
    torch.testing.assert_close(WRITES[name](x.clone(), y), wanted, rtol=1e-6, atol=1e-7)
    if name.startswith("own"):  # what a kernel reads must not be what it has written
        assert "write_straight" not in written


def test_writes_that_overlap_are_refused() -> None:
    x = torch.zeros(300, 200)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="internal overlap|memory location"):
            x[1:].add_(x[:-1])


def test_an_operand_that_is_read_late_is_refused() -> None:
    """A column has the strides of its matrix, but another shape."""
    x, apart = np.ones((300, 200), "f"), np.full((300, 1), 2, "f")
    until = time.monotonic() + 120
    while not pointwise.write_straight(np.multiply, x, apart):
        assert time.monotonic() < until, "no kernel came"
        pointwise.serve(np.multiply, (x, apart))
        time.sleep(0.002)
    assert (x == 2).all()
    for operand in (x[:, :1], x[:, 7:8], x[:1]):
        assert not pointwise.write_straight(np.multiply, x, operand)
    assert (x == 2).all()
