"""PassManager: run passes in an order that satisfies their constraints."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Any

from ..._compatibility import compatibility
from ...graph_module import GraphModule
from .pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]


@compatibility(is_backward_compatible=False)
def pass_result_wrapper(fn: Any) -> Any:
    """Wrap a function as a pass; a function that returns None is assumed to modify its module."""
    if fn is None:
        return None

    @wraps(fn)
    def wrapped_fn(gm: Any) -> Any:
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        if isinstance(result, PassResult):
            return result
        if isinstance(result, GraphModule):
            return PassResult(result, True)
        return None

    if not inspect.isfunction(fn):
        wrapped_fn.__name__ = type(fn).__name__
    return wrapped_fn


@compatibility(is_backward_compatible=False)
def this_before_that_pass_constraint(this: Any, that: Any) -> Callable[[Any, Any], bool]:
    """Return the constraint that one pass runs before another."""
    return lambda a, b: a != that or b != this


def _check_order(constraint: Callable[[Any, Any], bool], passes: list[Any]) -> None:
    """Raise RuntimeError if two passes are in an order that the constraint rejects."""
    for i, a in enumerate(passes):
        for j, b in enumerate(passes[i + 1 :]):
            if not constraint(a, b):
                raise RuntimeError(
                    f"pass schedule constraint violated. Expected {a} before {b} but found {a} at "
                    f"index {i} and {b} at index{j} in pass list."
                )


_validate_pass_schedule_constraint = _check_order


def _topological_sort_passes(passes: list[Any], constraints: list[Any]) -> list[Any]:
    """Return the passes in an order that satisfies all constraints; RuntimeError if impossible."""
    if not constraints:
        return passes
    followers: dict[Any, list[Any]] = {p: [] for p in passes}
    # The number of unsorted passes that each pass must follow, once per constraint.
    pending = dict.fromkeys(passes, 0)
    for a in passes:
        for b in passes:
            for constraint in constraints:
                if a != b and not constraint(a, b):
                    followers[b].append(a)
                    pending[a] += 1
    ready = deque(p for p in passes if pending[p] == 0)
    ordered = []
    while ready:
        current = ready.popleft()
        ordered.append(current)
        for follower in followers[current]:
            pending[follower] -= 1
            if pending[follower] == 0:
                ready.append(follower)
    unsorted = [p for p in pending if pending[p] != 0]
    if unsorted:
        raise RuntimeError(f"Circular dependency detected within the following passes: {unsorted}")
    return ordered


def _read_name(fn: Any) -> str:
    """Return the name of a pass: a function's, or the class of another callable."""
    return fn.__name__ if inspect.isfunction(fn) else type(fn).__name__


@compatibility(is_backward_compatible=False)
class PassManager:
    """Runs all passes up to `steps` times, stopping once none changes anything.

    `constraints`: functions of two passes that return False if the second must run first.
    `run_checks_after_each_pass`: whether to call `check` after every pass.
    """

    passes: list[Any]
    constraints: list[Any]
    _validated: bool = False
    steps: int = 1

    def __init__(
        self, passes: Any = None, constraints: Any = None, steps: int | None = None,
        run_checks_after_each_pass: bool = False, suppress_check_failures: bool = False,
    ) -> None:
        self.passes, self.constraints = passes or [], constraints or []
        if steps:
            self.steps = steps
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures

    def add_pass(self, _pass: Any) -> None:
        """Append a pass."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Any) -> None:
        """Add a constraint on the order of passes."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Raise RuntimeError if the order of passes violates a constraint."""
        if not self._validated:
            for constraint in self.constraints:
                _check_order(constraint, self.passes)
        self._validated = True

    def solve_constraints(self) -> None:
        """Sort the passes into an order that satisfies the constraints."""
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable[[Any], None]) -> None:
        """Set the function that checks a module before all passes and optionally after each."""
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError(
                "PassManager check function should only take in one variable, a module"
            )
        self.__dict__["check"] = check

    def check(self, module: Any) -> None:
        """Accept any module; `add_checks` replaces this."""

    def __call__(self, module: Any) -> PassResult:
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        any_modified = False
        for _ in range(self.steps):
            modified = False
            for i, fn in enumerate(self.passes):
                try:
                    module, changed = self._run(fn, module)
                except Exception as error:
                    before = [_read_name(p) for p in self.passes[:i]]
                    raise Exception(
                        f"An error occurred when running the '{_read_name(fn)}' pass after "
                        f"the following passes: {before}") from error
                modified = modified or changed
            any_modified = any_modified or modified
            if not modified:
                break
        return PassResult(module, any_modified)

    def _run(self, fn: Any, module: Any) -> tuple[Any, bool]:
        """Run a pass and return (the module, whether it was modified)."""
        result = fn(module)
        if not isinstance(result, PassResult) and not hasattr(result, "graph_module"):
            raise TypeError(f"The result of the pass {_read_name(fn)} should be type PassResult."
                            "Please wrap it with pass_result_wrapper()")
        module = result.graph_module
        if isinstance(module, GraphModule):
            module.recompile()
        if self.run_checks_after_each_pass:
            self.check(module)
        return module, result.modified
