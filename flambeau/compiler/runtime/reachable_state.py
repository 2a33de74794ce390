"""ReachableState: the tensors and hooks that a step used besides its arguments, as recorded.

The tensors' memory and flags are compared before each run, hooks only after any hook in the process
changed. compiler/proof/guards.py guards what the step reads of modules; guard_source.py writes the
guards of arguments.
"""

from __future__ import annotations

import weakref
from typing import Any

from ...autograd.handle import HANDLES
from ...nn import global_hooks
from ...nn.module import Module
from ...nn.parameter import is_lazy
from ...nn.registration import CHANGES
from ...optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks
from ...tensor.ambient import AMBIENT
from ...tensor.layout import find_owner
from ..trace.trace import UPDATE, Trace


class ReachableState:
    """A snapshot of the tensors and hooks that a recorded call used."""

    def __init__(self, trace: Trace) -> None:
        proof = trace.proof
        called = [item() for item in trace.modules]
        roots = [m for m in (*called, *(proof.modules if proof else ())) if m is not None]
        self._modules: dict[int, Module] = {id(m): m for root in roots for m in root.modules()}
        self._outside = [] if proof is None else proof.outside_tensors
        self.tensors = list(trace.externals.values())
        self.states = [(t, t._array, t._requires_grad) for t in self.tensors]
        events = [event.kwargs for event in trace.events if event.kind == UPDATE]
        self._optimizers = list({id(e["optimizer"]): e["optimizer"] for e in events}.values())
        self._hooks = self._list_hooks()
        self.counts = get_change_counts()

    def has_same_hooks(self) -> bool:
        """Whether the hooks that run inside the step are those of the recorded call."""
        return self._list_hooks() == self._hooks

    def list_memory(self) -> dict[int, weakref.ref]:
        """Return the memory that the step reaches other than through its arguments, by id. It is
        referenced weakly, as another call's argument may take the id of memory that is gone.

        An argument in such memory has two roles. A program that treated it only as an argument
        would read and write the wrong memory in a call where the two differ.
        """
        tensors = [*self.tensors, *self._outside]
        for module in self._modules.values():
            members = (*module._parameters.values(), *module._buffers.values())
            tensors += [tensor for tensor in members if tensor is not None]
        owners = [find_owner(tensor._array) for tensor in tensors if not is_lazy(tensor)]
        return {id(owner): weakref.ref(owner) for owner in owners}

    def _list_hooks(self) -> list[tuple]:
        """Return the ids of all hooks that run inside the step."""
        registries: list[Any] = [
            global_hooks.forward_pre, global_hooks.forward, global_hooks.backward_pre,
            global_hooks.backward, _global_optimizer_pre_hooks, _global_optimizer_post_hooks,
        ]
        for optimizer in self._optimizers:
            registries += [optimizer._optimizer_step_pre_hooks,
                           optimizer._optimizer_step_post_hooks]
        for tensor in self.tensors:
            attributes = tensor.__dict__
            registries += [attributes.get(name)
                           for name in ("_backward_hooks", "_post_accumulate_grad_hooks")]
        return [tuple(place or ()) for place in registries]


def get_change_counts() -> tuple[int, int, int]:
    """Return process-wide change counts of modules, hooks and ambient settings."""
    return CHANGES.count, HANDLES.count, AMBIENT.changes
