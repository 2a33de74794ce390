"""Single checks of an operator or function: its registrations, and whether make_fx can trace it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....fx.experimental.proxy_tensor import make_fx
from ....random import get_rng_state, set_rng_state
from ....tensor.tensor import Tensor
from ....tensor.tree import collect_leaves
from ....utils._pytree import tree_map
from ..._comparison import assert_close
from ...operator_checks import find_overload, run_check
from .aot_autograd import draw_like

__all__ = ["autograd_registration_check", "fake_check", "make_fx_check"]


def autograd_registration_check(op: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """Raise AssertionError if an operator's derivative is registered below autograd.

    Raises RuntimeError if no argument requires grad, because that would show nothing.
    """
    if not any(x.requires_grad for x in collect_leaves(Tensor, (args, kwargs))):
        raise RuntimeError(
            "autograd_registration_check: no inputs have requires_grad=True so we are unable to "
            "actually perform this test. Please pass inputs that do require grad.")
    run_check("test_autograd_registration", find_overload(op), args, kwargs)


def fake_check(op: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """Raise AssertionError if the results of an operator's fake kernel have other shapes or dtypes
    than those of the real one."""
    run_check("test_faketensor", find_overload(op), args, kwargs)


def make_fx_check(
    func: Callable, args: tuple, kwargs: dict[str, Any], tracing_mode: str,
    assert_close: Callable = assert_close, randomize_data: bool = False,
) -> None:
    """Raise AssertionError if the graph that make_fx traces computes something else than `func`.

    `randomize_data`: compare on other values; where `func` refuses those, nothing is compared.
    """
    def flat(*leaves: Any) -> Any:
        rest = iter(leaves)
        fill = tree_map(lambda x: next(rest) if isinstance(x, Tensor) else x, (args, kwargs))
        return func(*fill[0], **fill[1])

    inputs = collect_leaves(Tensor, (args, kwargs))
    graph = make_fx(flat, tracing_mode=tracing_mode)(*inputs)
    if randomize_data:
        inputs = [draw_like(x) for x in inputs]
    state = get_rng_state()
    try:
        expected = flat(*inputs)
    except Exception:
        if randomize_data:
            return
        raise
    set_rng_state(state)
    assert_close(graph(*inputs), expected, msg=(
        "op(*args, **kwargs) and make_fx(op)(*args, **kwargs) produced different values. This "
        "could mean that your abstract impls (meta/FakeTensor impls) are incorrect, that your "
        "operator is not completely traceable (e.g., it relies on some global state), or that "
        "there is a bug in make_fx. Note that if you passed a python function (and not an "
        "operator) to make_fx_check, it is still possible that the python function will still work "
        "with torch.compile because it handles capturing pieces of your python code to compile."))
