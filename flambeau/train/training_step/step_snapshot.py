"""A copy of the state that a training step changes, to undo steps that were only run to compile."""

from __future__ import annotations

from typing import Any

from ...autograd.mode import no_grad
from ...nn import Module
from ...tensor.tensor import Tensor
from ...tensor.tree import collect_leaves
from ..state.random_state import read_random_state, set_random_state


class StepSnapshot:
    """Copies of parameters, buffers, gradients, optimizers' state and random numbers."""

    def __init__(self, modules: list[Module], optimizers: tuple[Any, ...]) -> None:
        tensors = _list_tensors(modules, optimizers)
        self.tensors = [(t, t.detach().clone()) for t in tensors]
        self.numbers = [
            (state, {key: value for key, value in state.items() if _is_number(value)})
            for optimizer in optimizers
            for state in (*optimizer.param_groups, *optimizer.state.values())
        ]
        self.grads = [
            (t, t.grad, None if t.grad is None else t.grad.clone())
            for t in tensors if t.requires_grad
        ]
        self.random = read_random_state()

    def restore(self) -> None:
        """Restore everything in place, at the addresses that programs use."""
        with no_grad():
            for tensor, value in self.tensors:
                tensor.copy_(value)
            for tensor, grad, saved_grad in self.grads:  # accumulated or unused
                tensor.grad = grad if saved_grad is None or grad is None else grad.copy_(saved_grad)
        for state, values in self.numbers:
            state.update(values)
        set_random_state(self.random)


def _list_tensors(modules: list[Module], optimizers: tuple[Any, ...]) -> list[Tensor]:
    """Return each tensor of modules, of optimizers' groups and of their state once."""
    tensors = [t for m in modules for t in (*m.parameters(), *m.buffers())]
    for optimizer in optimizers:
        tensors += [p for group in optimizer.param_groups for p in group["params"]]
        tensors += collect_leaves(Tensor, list(optimizer.state.values()))
    return list({id(t): t for t in tensors}.values())


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) or value is None
