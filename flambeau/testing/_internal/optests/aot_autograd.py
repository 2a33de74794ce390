"""aot_autograd_check: whether a compiled function has the results and gradients of an eager one."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ....autograd import grad
from ....compiler import compile
from ....random import get_rng_state, set_rng_state
from ....tensor.tensor import Tensor
from ....tensor.tree import collect_leaves
from ....utils._pytree import tree_map
from ..._comparison import assert_close

__all__ = ["aot_autograd_check", "assert_raises_regex"]

_OUTPUTS = (
    "Outputs of the operator are different in eager-mode PyTorch vs AOTDispatcher tracing. This "
    "means the operator will have incorrect output underneath torch.compile. This could be because "
    "the operator's implementation not traceable.")
_GRADIENTS = (
    "Gradients of the operator are different in eager-mode PyTorch vs AOTDispatcher. This means "
    "the operator will have incorrect gradients underneath torch.compile. This could be because "
    "the operator's backward is incorrectly registered or not traceable.")


class assert_raises_regex:
    """Context that raises AssertionError unless its block raises `exception_cls` with a text that
    matches."""

    def __init__(self, exception_cls: type[BaseException], regex: str) -> None:
        self.exception_cls, self.regex = exception_cls, regex

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if exc_type is self.exception_cls:
            if not re.search(self.regex, str(exc_val)):
                raise AssertionError(f"Expected exception to match regex. regex: {self.regex}, "
                                     f"exception: {exc_val}")
            return True
        if exc_type is not None:
            raise AssertionError(f"Expected {self.exception_cls} to be raised, instead got "
                                 f"exception {exc_type}")
        raise AssertionError("Expected exception to be raised but none was")


def aot_autograd_check(
    func: Callable, args: Any, kwargs: dict[str, Any], dynamic: bool,
    assert_raises_regex_fn: Callable = assert_raises_regex,
    assert_equals_fn: Callable = assert_close, check_gradients: bool | str = True,
    try_check_data_specialization: bool = False, skip_correctness_check: bool = False,
    disable_functionalization: bool = False,
) -> None:
    """Raise AssertionError if a compiled `func` computes something else than an eager one.

    `check_gradients`: whether to compare gradients too; "auto" does so where results have some.
    `try_check_data_specialization`: compare on other values too, unless `func` refuses them.
    """
    compiled = compile(func, mode="now", dynamic=dynamic)
    inputs = (tuple(args), kwargs)
    if check_gradients == "auto":
        outputs = collect_leaves(Tensor, func(*inputs[0], **inputs[1]))
        check_gradients = any(y.requires_grad for y in outputs) and any(
            x.requires_grad for x in collect_leaves(Tensor, inputs))
    _compare(func, compiled, inputs, assert_equals_fn, bool(check_gradients),
             skip_correctness_check)
    if try_check_data_specialization:
        drawn = tree_map(draw_like, inputs)
        try:
            _run(func, drawn, bool(check_gradients))
        except Exception:
            return
        _compare(func, compiled, drawn, assert_equals_fn, bool(check_gradients),
                 skip_correctness_check)


def _compare(
    func: Callable, compiled: Callable, inputs: Any, assert_equal: Callable, has_gradients: bool,
    skips: bool,
) -> None:
    state = get_rng_state()
    expected = _run(func, inputs, has_gradients)
    set_rng_state(state)
    actual = _run(compiled, inputs, has_gradients)
    if skips:
        return
    for x, y, text in zip(actual, expected, (_OUTPUTS, _GRADIENTS), strict=True):
        try:
            assert_equal(x, y)
        except Exception as error:
            raise type(error)(text) from error


def _run(func: Callable, inputs: Any, has_gradients: bool) -> tuple[Any, Any]:
    """Return a function's results, and the gradients of the sum of their absolute sums."""
    outputs = func(*inputs[0], **inputs[1])
    if not has_gradients:
        return outputs, ()
    total = sum(y.sum().abs() for y in collect_leaves(Tensor, outputs))
    leaves = [x for x in collect_leaves(Tensor, inputs) if x.requires_grad]
    gradients = grad(total, leaves, allow_unused=True)
    return outputs, [x.new_zeros(x.shape) if g is None else g
                     for x, g in zip(leaves, gradients, strict=True)]


def draw_like(x: Any) -> Any:
    """Return other values for a tensor of floating-point numbers, and everything else as it is."""
    if not isinstance(x, Tensor) or not x.dtype.is_floating_point:
        return x
    return x.detach().clone().uniform_(0, 1).requires_grad_(x.requires_grad)
