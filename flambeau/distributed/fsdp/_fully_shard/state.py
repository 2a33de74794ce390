"""ModuleState: when a module's parameters are gathered and released. Its root ends backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....autograd.engine import get_task_number, queue_callback
from ....autograd.mode import is_grad_enabled
from ....nn.module import Module
from ....tensor import Tensor
from ...collective_launch import refuse_compilation
from ...data_parallel.reducer import iterate_tensors
from ..input_dtypes import cast_floats
from .group import ParameterGroup
from .policies import MixedPrecisionPolicy

__all__ = ["ModuleState", "find_state"]

_STATE = "_fsdp_state"


def find_state(module: Module) -> ModuleState | None:
    """Return the state of a module that fully_shard was called on, None for others."""
    state: ModuleState | None = module.__dict__.get(_STATE)
    return state


class ModuleState:
    """One call of fully_shard at work, on one module or on several that share it."""

    def __init__(
        self, modules: list[Module], group: ParameterGroup | None, policy: MixedPrecisionPolicy,
        reshard_after_forward: bool | int | None,
    ) -> None:
        self.modules, self.group, self.policy = modules, group, policy
        self._requested = reshard_after_forward  # None: not the root, which backward needs first
        self.reshards_after_forward = reshard_after_forward is not False
        self.reshards_after_backward = self.is_last_backward = True
        self.forward_prefetch: list[ModuleState] = []
        self.backward_prefetch: list[ModuleState] = []
        self.root: ModuleState | None = None
        self.states: list[ModuleState] = []  # of a root: all below it, itself first
        self.order: list[ModuleState] = []  # of a root: in the order of the last forward
        self._hooked: list[int] = []
        self._arrived: set[int] = set()
        self._task: int | None = None  # the backward pass that this state has opened
        self._ending: int | None = None  # of a root: the backward pass whose end it awaits
        self._waiting = 0  # modules of this state that have yet to run forward
        for module in modules:
            module.__dict__[_STATE] = self

    # ------------------------------------------------------------------------ the root

    def _find_root(self) -> ModuleState:
        """Return the root. The first module whose forward runs is the root of those below."""
        if self.root is None:
            for module in self.modules:
                for below in module.modules():
                    state = find_state(below)
                    if state is not None and state not in self.states:
                        self.states.append(state)
                        state.root = self
            if self._requested is None:
                self.reshards_after_forward = False
        assert self.root is not None
        return self.root

    # ------------------------------------------------------------------------ forward

    def before_forward(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Gather the parameters; return the inputs, cast if the policy says so."""
        refuse_compilation("a sharded model")
        root = self._find_root()
        is_recomputing = get_task_number() is not None
        if root is self and not is_recomputing:
            root.order = []
            for state in root.states:
                if state.group is not None:
                    state.group.discard_stale()
        if self not in root.order and not is_recomputing:
            root.order.append(self)
        if self.group is not None:
            self.group.unshard()
            self._hook_gradients()
        for state in self.forward_prefetch:
            if state.group is not None:
                state.group.start_unshard()
        dtype = self.policy.param_dtype
        if dtype is not None and self.policy.cast_forward_inputs:
            args, kwargs = cast_floats(args, dtype), cast_floats(kwargs, dtype)
        return args, kwargs

    def after_forward(self, outputs: Any) -> Any:
        """Release the parameters until backward; return the outputs in their dtype."""
        if self.policy.output_dtype is not None:
            outputs = cast_floats(outputs, self.policy.output_dtype)
        if get_task_number() is not None:
            return outputs  # recomputed: backward follows
        if is_grad_enabled():
            for tensor in iterate_tensors(outputs):
                if tensor.requires_grad:
                    tensor.register_hook(self._open)
        if self.group is not None and self.reshards_after_forward:
            self.group.reshard()
        return outputs

    # ------------------------------------------------------------------------ backward

    def _hook_gradients(self) -> None:
        """Place hooks on the whole parameters, which change with their dtype."""
        assert self.group is not None
        for parameter in self.group.parameters:
            leaf = parameter.whole
            assert leaf is not None
            if leaf.requires_grad and id(leaf) not in self._hooked:
                leaf.register_post_accumulate_grad_hook(self._create_counter(id(leaf)))
                self._hooked.append(id(leaf))

    def _open(self, gradient: Tensor) -> None:
        """Gather the parameters when a gradient of an output arrives."""
        root = self._find_root()
        task = get_task_number()
        if root._ending != task:
            root._ending = task
            queue_callback(root.end_backward)
        if self._task != task:
            self._task = task
            self._arrived.clear()
        if self.group is not None:
            self.group.unshard()
        for state in self.backward_prefetch or self._find_next(root):
            if state.group is not None:
                state.group.start_unshard()

    def _find_next(self, root: ModuleState) -> list[ModuleState]:
        """Return the state that backward needs after this one."""
        if self not in root.order:
            return []
        number = root.order.index(self)
        return [root.order[number - 1]] if number else []

    def _create_counter(self, number: int) -> Callable[[Tensor], None]:
        def count(leaf: Tensor) -> None:
            assert self.group is not None
            self._arrived.add(number)
            unsharded = [p.whole for p in self.group.parameters if p.whole is not None]
            if len(self._arrived) == len(unsharded):
                self._close()

        return count

    def _close(self) -> None:
        """Send the gradients, and release the parameters. Frozen ones wait for backward's end."""
        assert self.group is not None
        self._arrived.clear()
        self.group.start_reduce()
        if self.reshards_after_backward:
            self.group.reshard()

    def end_backward(self) -> None:
        """Close what backward has left open, and wait for the gradients."""
        self._ending = None
        for state in self.states:
            if state.group is None:
                continue
            if state._task is not None:
                state._task = None
                state._arrived.clear()
                state.group.start_reduce()
            if state.reshards_after_backward:
                state.group.reshard()
        for state in self.states:
            if state.group is not None:
                state.group.finish_reduce()
