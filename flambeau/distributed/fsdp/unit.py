"""Unit: gathers a module's parameters around its forward and backward. Schedule: the units of a
model, and which of them the current backward has opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd.engine import get_task_number, queue_callback
from ...autograd.mode import is_grad_enabled
from ...tensor import Tensor
from ..collective_launch import refuse_compilation
from ..data_parallel.reducer import iterate_tensors
from .api import BackwardPrefetch
from .flat_handle import FlatParamHandle
from .gradient_reduction import finish_reducing, start_reducing


class Schedule:
    """The units under a root, in the order of the last forward."""

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self.order: list[Unit] = []
        self.opened: dict[int | None, set[Unit]] = {}  # by the number of the backward pass

    def begin_forward(self) -> None:
        """Forget the last forward: parameters may have changed since it gathered them."""
        if get_task_number() is None:
            self.order = []
            self.opened.clear()
            for unit in self.units:
                unit.close()

    def open(self, unit: Unit) -> None:
        """Note that the current backward gathers a unit's parameters."""
        task = get_task_number()
        if task not in self.opened:
            self.opened[task] = set()
            queue_callback(lambda: self._end_backward(task))
        self.opened[task].add(unit)

    def _end_backward(self, task: int | None) -> None:
        for unit in self.units:
            finish_reducing(unit.handle)
        for unit in self.opened.pop(task, ()):
            unit.close()

    def before(self, unit: Unit) -> Unit | None:
        """Return the unit that backward needs after this one."""
        if unit not in self.order:
            return None
        number = self.order.index(unit)
        return self.order[number - 1] if number else None


class Unit:
    """One sharded module at work. `handle` holds its parameters."""

    def __init__(
        self, handle: FlatParamHandle, reshards_after_forward: bool,
        prefetch: BackwardPrefetch | None,
    ) -> None:
        self.handle, self.prefetch = handle, prefetch
        self.reshards_after_forward = reshards_after_forward
        self.reshards_after_backward = True
        self.syncs = True  # else gradients stay here, whole, and are summed
        self.schedule = Schedule()
        self._calls = 0
        self._open_calls: set[int] = set()  # forwards whose backward is in progress
        self._hooked: Tensor | None = None
        self._has_frozen = not all(s.requires_grad for s in handle.layout.segments)

    # ------------------------------------------------------------------------ forward

    def before_forward(self, inputs: Any) -> None:
        """Gather the parameters and show them to the modules."""
        refuse_compilation("a sharded model")
        handle = self.handle
        if self not in self.schedule.order and get_task_number() is None:
            self.schedule.order.append(self)
        handle.gather()
        self._hook_gradient()
        handle.show_gathered()
        self._calls += 1
        if self._has_frozen and is_grad_enabled():
            self._await_inputs(self._calls, inputs)

    def after_forward(self, outputs: Any) -> None:
        """Free the parameters, and gather them again when a gradient of the outputs arrives."""
        hook = self._create_opener(self._calls)
        is_tracked = False
        if is_grad_enabled():
            for tensor in iterate_tensors(outputs):
                if tensor.requires_grad:
                    tensor.register_hook(hook)
                    is_tracked = True
        if not self._open_calls:
            if self.reshards_after_forward or not is_tracked:
                self.handle.release()
            self.handle.show_shards()

    def _hook_gradient(self) -> None:
        """Place the hook on the gathered leaf, which changes with its dtype."""
        leaf = self.handle.gathered
        assert leaf is not None
        if leaf is not self._hooked and leaf.requires_grad:
            leaf.register_post_accumulate_grad_hook(self._finish_gradient)
            self._hooked = leaf

    # ------------------------------------------------------------------------ backward

    def _create_opener(self, call: int) -> Callable[[Tensor], None]:
        def open_for_backward(gradient: Tensor) -> None:
            if is_grad_enabled():
                raise NotImplementedError("backward(create_graph=True) through a sharded model is "
                                          "not implemented in flambeau")
            if call in self._open_calls and self.handle.is_gathered:
                return
            self._open_calls.add(call)
            self.schedule.open(self)
            self.handle.gather()
            self.handle.show_gathered_for_recomputation()
            if self.prefetch is BackwardPrefetch.BACKWARD_PRE:
                self._prefetch()

        return open_for_backward

    def _prefetch(self) -> None:
        following = self.schedule.before(self)
        if following is not None:
            self.schedule.open(following)
            following.handle.start_gathering()

    def _finish_gradient(self, leaf: Tensor) -> None:
        """Send the gradient; free the parameters unless frozen ones may still be needed."""
        if self.syncs:
            start_reducing(self.handle)
        if not self._has_frozen:
            self._open_calls.clear()
            self._free_after_backward()
        if self.prefetch is BackwardPrefetch.BACKWARD_POST:
            self._prefetch()

    def _await_inputs(self, call: int, inputs: Any) -> None:
        """Free the parameters once the gradients of all inputs of a call are known."""
        tracked = [t for t in iterate_tensors(inputs) if t.requires_grad]
        missing = len(tracked)

        def count_arrival(gradient: Tensor) -> None:
            nonlocal missing
            missing -= 1
            if missing == 0:
                self._open_calls.discard(call)
                if not self._open_calls:
                    self._free_after_backward()

        for tensor in tracked:
            tensor.register_hook(count_arrival)

    def _free_after_backward(self) -> None:
        if self.reshards_after_backward:
            self.handle.release()
            self.handle.show_shards()

    def close(self) -> None:
        """Free what a forward or backward left gathered."""
        self._open_calls.clear()
        self.handle.release()
        self.handle.show_shards()
