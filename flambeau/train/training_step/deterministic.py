"""The compiled step for runs that must be bit-identical: compiled before it is used.

Otherwise a program takes over when it is ready, at a different step in each run, and rounds the
last bit differently. Here, whether a step is compiled depends only on the training state and the
batch, so a resumed run decides like an uninterrupted one.
"""

from __future__ import annotations

from typing import Any

from ...autograd.mode import no_grad
from ...compiler.driver.compiled_function import Compiled
from ...compiler.runtime.guarded_call import MISS
from ...native.foundation.user_frames import warn
from ...native.target.compile_costs import MAX_RECORDED_CALLS, MAX_SPECIALIZATIONS
from ...nn import Module
from ...tensor.tensor import Tensor
from ...tensor.tree import collect_leaves
from ..state.random_state import read_random_state, set_random_state
from .batch_kinds import Kinds, describe_kind
from .step_function import Step, try_compile

_MAX_REBUILDS = 3  # of an invalidated program


class ExactStep:
    """A step that runs as a program whenever it compiles."""

    def __init__(
        self, step: Step, parts: tuple[Any, ...], optimizers: tuple[Any, ...], kinds: Kinds
    ) -> None:
        self.step, self.optimizers, self.kinds = step, optimizers, kinds
        self.modules = [part for part in parts if isinstance(part, Module)]
        self._compiled: Any = None
        self.compiled_kinds: set[str] = set()  # with a program in this process

    def attempt(self, *batch: Any) -> Any:
        """Run the batch's program, or return MISS if there is none."""
        compiled = self._compiled
        return compiled.attempt(*batch) if compiled.__class__ is Compiled else MISS

    def __call__(self, *batch: Any) -> Any:
        if self._compiled is None:
            self._compiled = try_compile(self.step, mode="now")
        if not isinstance(self._compiled, Compiled):
            return self.step(*batch)
        result = self._compiled.attempt(*batch)
        return result if result is not MISS else self._run_first(batch)

    def _run_first(self, batch: tuple[Any, ...]) -> Any:
        """Run a step that has no program yet."""
        kinds, kind = self.kinds, describe_kind(batch)
        if kind not in kinds.known:
            if len(kinds.known) >= MAX_SPECIALIZATIONS:
                return self.step(*batch)
            kinds.known[kind] = 0
        if kind in kinds.plain:
            return self.step(*batch)
        if kind in self.compiled_kinds:
            kinds.known[kind] += 1
            if kinds.known[kind] > _MAX_REBUILDS:
                kinds.plain.add(kind)
                return self.step(*batch)
        return self._rehearse(kind, batch)

    def _rehearse(self, kind: str, batch: tuple[Any, ...]) -> Any:
        """Run the step until it is compiled, restore everything, and run the program.

        A step that creates optimizer state runs eagerly: the next step has a different program.
        """
        snapshot = Snapshot(self.modules, self.optimizers)
        structure = describe_structure(self.optimizers)
        try:
            outcome = self._compiled(*batch)
        except BaseException:
            snapshot.put_back()
            raise
        if describe_structure(self.optimizers) != structure:
            return outcome
        try:
            for _ in range(MAX_RECORDED_CALLS + 1):
                self._compiled(*batch)
        finally:
            snapshot.put_back()
        result = self._compiled.attempt(*batch)
        if result is MISS:
            self.kinds.plain.add(kind)
            if kind in self.kinds.compiled:
                warn("the step was compiled when the run was saved but cannot be compiled now: "
                     "the run continues, but the last bits may differ")
            return self.step(*batch)
        self.compiled_kinds.add(kind)
        self.kinds.compiled.add(kind)
        return result


class Snapshot:
    """A copy of the state that a step changes: parameters, buffers, optimizers, random numbers."""

    def __init__(self, modules: list[Module], optimizers: tuple[Any, ...]) -> None:
        tensors = [t for m in modules for t in (*m.parameters(), *m.buffers())]
        for optimizer in optimizers:
            groups = [p for group in optimizer.param_groups for p in group["params"]]
            tensors += [*groups, *collect_leaves(Tensor, list(optimizer.state.values()))]
        self.tensors = [(t, t.detach().clone()) for t in {id(t): t for t in tensors}.values()]
        self.numbers = [
            (owned, {key: value for key, value in owned.items() if _is_number(value)})
            for optimizer in optimizers
            for owned in (*optimizer.param_groups, *optimizer.state.values())
        ]
        leaves = {id(t): t for t in tensors if t.requires_grad}.values()
        self.grads = [(t, t.grad, None if t.grad is None else t.grad.clone()) for t in leaves]
        self.random = read_random_state()

    def put_back(self) -> None:
        """Restore everything in place, at the addresses that programs use."""
        with no_grad():
            for tensor, value in self.tensors:
                tensor.copy_(value)
            for tensor, grad, saved_grad in self.grads:  # accumulated or unused
                tensor.grad = grad if saved_grad is None or grad is None else grad.copy_(saved_grad)
        for state, values in self.numbers:
            state.update(values)
        set_random_state(self.random)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) or value is None


def describe_structure(optimizers: tuple[Any, ...]) -> list[Any]:
    """Return the structure of the optimizers' state, without values."""
    return [
        (id(parameter), sorted((key, type(value).__name__) for key, value in state.items()))
        for optimizer in optimizers
        for parameter, state in optimizer.state.items()
    ]
