"""A reshape that has to copy returns a tensor that is no view, as PyTorch's _unsafe_view does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau

COPYING: dict[str, Callable] = {
    "reshape": lambda x: x.T.reshape(-1),
    "flatten": lambda x: x.T.flatten(),
    "reshape_as": lambda x: x.T.reshape_as(x.detach().reshape(-1)),
}
LIBRARIES = ["flambeau", pytest.param("torch", marks=pytest.mark.parity)]


@pytest.mark.parametrize("name", COPYING)
@pytest.mark.parametrize("library", LIBRARIES)
def test_the_result_is_no_view(name: str, library: str) -> None:
    torch = pytest.importorskip(library)
    x = torch.ones(2, 3, requires_grad=True)
    y = COPYING[name](x)
    assert not y._is_view() and y._base is None
    assert y.grad_fn.name() == "UnsafeViewBackward0"
    window = y[1:]
    y.mul_(3)
    assert y.grad_fn.name() == "MulBackward0"  # not AsStridedBackward0, as of a view's base
    window.mul_(2)
    assert y.tolist() == [3, 6, 6, 6, 6, 6]
    y.sum().backward()
    assert x.grad.tolist() == [[3, 6, 6], [6, 6, 6]]


@pytest.mark.parametrize("library", LIBRARIES)
def test_in_place_operations_that_views_refuse(library: str) -> None:
    torch = pytest.importorskip(library)
    x = torch.ones(2, 3, requires_grad=True)
    with torch.no_grad():
        y = x.T.reshape(-1)
    y.add_(x[0, 0])  # of a view created without gradients, this would raise
    y.sum().backward()
    assert x.grad[0, 0] == 6
    z = x.T.reshape(-1)
    z.detach_()
    assert not z.requires_grad


def test_reshapes_without_a_copy_stay_views() -> None:
    x = flambeau.ones(2, 3)
    assert x.reshape(-1)._base is x and x.flatten()._base is x
    assert x.T.reshape(3, 2, 1)._base is x


@pytest.mark.parametrize("library", LIBRARIES)
def test_modes_see_the_copy(library: str) -> None:
    torch = pytest.importorskip(library)
    dispatch = pytest.importorskip(f"{library}.utils._python_dispatch")
    calls = []

    class Listing(dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            calls.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, 3)
    with Listing():
        x.T.reshape(-1)
    assert calls[1:] == ["aten.clone.default", "aten._unsafe_view.default"]


def test_a_compiled_copy_names_its_line() -> None:
    step = flambeau.compile(lambda x: x.t().reshape(-1) * 2, options={"mode": "now"})
    x = flambeau.arange(6.).view(2, 3)
    for _ in range(4):
        assert step(x).tolist() == [0, 6, 2, 8, 4, 10]
    assert "unsafe_view at" in step.explain()
