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
    behind: dict[Any, list[Any]] = {p: [] for p in passes}
    waits = dict.fromkeys(passes, 0)
    for a in passes:
        for b in passes:
            for constraint in constraints:
                if a != b and not constraint(a, b):
                    behind[b].append(a)
                    waits[a] += 1
    ready = deque(p for p in passes if waits[p] == 0)
    ordered = []
    while ready:
        current = ready.popleft()
        ordered.append(current)
        for other in behind[current]:
            waits[other] -= 1
            if waits[other] == 0:
                ready.append(other)
    left = [p for p in waits if waits[p] != 0]
    if left:
        raise RuntimeError(f"Circular dependency detected within the following passes: {left}")
    return ordered


def _name(fn: Any) -> str:
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
        """Add a constraint."""
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
        ever = False
        for _ in range(self.steps):
            modified = False
            for i, fn in enumerate(self.passes):
                try:
                    module, changed = self._run(fn, module)
                except Exception as error:
                    before = [_name(p) for p in self.passes[:i]]
                    raise Exception(f"An error occurred when running the '{_name(fn)}' pass after "
                                    f"the following passes: {before}") from error
                modified = modified or changed
            ever = ever or modified
            if not modified:
                break
        return PassResult(module, ever)

    def _run(self, fn: Any, module: Any) -> tuple[Any, bool]:
        result = fn(module)
        if not isinstance(result, PassResult) and not hasattr(result, "graph_module"):
            raise TypeError(f"The result of the pass {_name(fn)} should be type PassResult."
                            "Please wrap it with pass_result_wrapper()")
        module = result.graph_module
        if isinstance(module, GraphModule):
            module.recompile()
        if self.run_checks_after_each_pass:
            self.check(module)
        return module, result.modified
