"""torch.fx.passes.pass_manager: the older PassManager, whose passes return modules."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import unwrap
from typing import Any

from .infra.pass_manager import _check_order, this_before_that_pass_constraint

__all__ = ["PassManager", "inplace_wrapper", "loop_pass", "these_before_those_pass_constraint",
           "this_before_that_pass_constraint"]


def inplace_wrapper(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Turn a function that changes its module in place into a pass that returns the module."""

    @wraps(fn)
    def wrapped_fn(gm: Any) -> Any:
        fn(gm)
        return gm

    return wrapped_fn


def loop_pass(
    base_pass: Callable[..., Any], n_iter: int | None = None,
    predicate: Callable[..., bool] | None = None,
) -> Callable[..., Any]:
    """Return a pass that repeats another `n_iter` times, or while `predicate(result)` is true."""
    if (n_iter is None) == (predicate is None):
        raise AssertionError("Exactly one of `n_iter`or `predicate` must be specified.")

    @wraps(base_pass)
    def new_pass(source: Any) -> Any:
        output = source
        if n_iter is not None:
            for _ in range(n_iter):
                output = base_pass(output)
        while predicate is not None and predicate(output):
            output = base_pass(output)
        return output

    return new_pass


def these_before_those_pass_constraint(these: Any, those: Any) -> Callable[[Any, Any], bool]:
    """Return the constraint that one pass runs before another, ignoring functools wrappers."""
    return lambda a, b: unwrap(a) != those or unwrap(b) != these


class PassManager:
    """Runs passes in order, feeding each the module returned by the previous one."""

    def __init__(self, passes: Any = None, constraints: Any = None) -> None:
        self.passes, self.constraints = passes or [], constraints or []
        self._validated = False

    @classmethod
    def build_from_passlist(cls, passes: Any) -> PassManager:
        """Return a manager for these passes."""
        return cls(passes)

    def add_pass(self, _pass: Any) -> None:
        """Append a pass."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Any) -> None:
        """Add a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes: list[str]) -> None:
        """Remove the passes with these names."""
        self.passes = [p for p in self.passes if p.__name__ not in _passes]
        self._validated = False

    def replace_pass(self, _target: Any, _replacement: Any) -> None:
        """Replace every pass that has the same name as `_target`."""
        self.passes = [_replacement if p.__name__ == _target.__name__ else p for p in self.passes]
        self._validated = False

    def validate(self) -> None:
        """Raise RuntimeError if the order of passes violates a constraint."""
        if not self._validated:
            for constraint in self.constraints:
                _check_order(constraint, self.passes)
        self._validated = True

    def __call__(self, source: Any) -> Any:
        self.validate()
        for fn in self.passes:
            source = fn(source)
        return source
