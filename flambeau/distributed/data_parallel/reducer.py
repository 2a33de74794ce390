"""Reducer: average gradients over the processes, bucket by bucket, while backward continues.

A hook on each parameter copies its gradient into its bucket. A full bucket goes to the group's
thread, in the same order on all processes; the hook of the last gradient waits for all buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...autograd.outputs import Output
from ...futures import Future
from ...tensor import Tensor
from ..collective_launch import get_recorder, refuse_compilation
from ..engines.engine import reduce_array
from ..process_group import ProcessGroup
from ..reduce_op import ReduceOp
from .bucket import Bucket, GradBucket, assign_buckets

CommHook = Callable[[Any, GradBucket], Future]


class Reducer:
    """The buckets of a module's parameters and the progress of the current backward."""

    def __init__(
        self, parameters: Sequence[Tensor], names: Sequence[str], group: ProcessGroup,
        cap_bytes: int, gradient_as_bucket_view: bool = False, finds_unused: bool = False,
    ) -> None:
        self.group, self.names, self.finds_unused = group, list(names), finds_unused
        self.as_view = gradient_as_bucket_view
        self.parameters = list(parameters)
        self.buckets = assign_buckets(self.parameters, cap_bytes)
        self.comm_hook: tuple[Any, CommHook] | None = None
        self.divisor = group.size()
        self.is_static, self.rounds = True, 0  # of backwards that looked for unused parameters
        self._recorder: Any = None  # of the current step, if it is compiled
        self.armed = self.is_expecting = False  # hooks are active; gradients are outstanding
        self._next = 0  # the first bucket not yet sent
        self._places: dict[int, tuple[Bucket, int]] = {
            id(p): (bucket, i)
            for bucket in self.buckets
            for i, p in enumerate(bucket.parameters)
        }
        self._ready: set[int] = set()
        self._used: np.ndarray = np.ones(len(self.parameters), np.int32)
        self._order = {id(p): i for i, p in enumerate(self.parameters)}
        if group.size() > 1:
            self._register_hooks()

    def _register_hooks(self) -> None:
        for parameter in self.parameters:
            parameter.register_post_accumulate_grad_hook(self._gradient_arrived)

    def set_comm_hook(self, state: Any, hook: CommHook) -> None:
        """Make a hook reduce the buckets."""
        if self.group.size() == 1:
            self._register_hooks()
        self.comm_hook = state, hook

    # ---------------------------------------------------------------- before a backward

    def prepare(self, outputs: Any) -> None:
        """Arm the hooks for a backward through `outputs`. Raises RuntimeError if the last backward
        left a gradient missing."""
        if self.group.size() == 1 and self.comm_hook is None:
            return
        if self.is_expecting and self._ready:
            missing = [i for i, p in enumerate(self.parameters) if id(p) not in self._ready]
            raise _create_unfinished_error(missing, self.names, self.group.rank())
        self.armed = self.is_expecting = True
        self._next, self._recorder = 0, get_recorder()
        if self._recorder is not None:
            self._prepare_recording()
        self._ready.clear()
        for bucket in self.buckets:
            bucket.missing = len(bucket.parameters)
            bucket.work = bucket.future = bucket.transfer = None
        if not self.finds_unused:
            return
        reached, before = find_leaf_ids(outputs), self._used
        self._used = np.array([id(p) in reached for p in self.parameters], np.int32)
        self.is_static &= self.rounds == 0 or np.array_equal(before, self._used)
        self.rounds += 1
        for parameter, used in zip(self.parameters, self._used, strict=True):
            if not used:
                self._mark(parameter, has_gradient=False)

    def figures(self) -> dict[str, Any]:
        """Return statistics: the group, the buckets, whether the used parameters were static."""
        sizes = [bucket.buffer._array.nbytes for bucket in self.buckets]
        return {
            "world_size": self.group.size(), "rank": self.group.rank(),
            "backend_name": self.group.name(), "can_set_static_graph": self.is_static,
            "num_parameter_tensors": len(self.parameters),
            "total_parameter_size_bytes": sum(sizes), "bucket_sizes": ", ".join(map(str, sizes)),
            "find_unused_parameters": self.finds_unused, "gradient_as_bucket_view": self.as_view,
        }

    def _prepare_recording(self) -> None:
        """Prepare a recorded step, whose collectives become nodes of its graph."""
        if self.comm_hook is not None:
            refuse_compilation("a communication hook of DistributedDataParallel")
        elif self.finds_unused:
            refuse_compilation("DistributedDataParallel looks for unused parameters")
        else:
            self._recorder.awaited[id(self)] = "DistributedDataParallel awaits a backward"

    def disarm(self) -> None:
        """Ignore the gradients of the next backward."""
        self.armed = False

    # ---------------------------------------------------------------- during a backward

    def _gradient_arrived(self, parameter: Tensor) -> None:
        """Handle a parameter's complete gradient (the post-accumulate hook)."""
        if self.armed:
            if id(parameter) in self._ready:
                number = self._order[id(parameter)]
                raise _create_marked_twice_error(number, self.names[number])
            self._mark(parameter, has_gradient=True)

    def _mark(self, parameter: Tensor, has_gradient: bool) -> None:
        """Copy a gradient, or zeros, into its bucket; send the buckets that are full."""
        bucket, number = self._places[id(parameter)]
        window, gradient = bucket.views[number]._array, parameter._grad
        if not has_gradient or gradient is None:
            window[...] = 0
        elif self.comm_hook is not None:
            if gradient._array is not window:
                np.copyto(window, gradient._array)
        else:
            np.multiply(gradient._array, window.dtype.type(1 / self.divisor), out=window)
        self._ready.add(id(parameter))
        bucket.missing -= 1
        while self._next < len(self.buckets) and not self.buckets[self._next].missing:
            self._send(self.buckets[self._next])
            self._next += 1
        if self._next == len(self.buckets) and self.armed and has_gradient:
            self._finish()

    def _send(self, bucket: Bucket) -> None:
        """Start the reduction of a full bucket."""
        if self.comm_hook is not None:
            state, hook = self.comm_hook
            is_last = bucket is self.buckets[-1]
            bucket.future = hook(state, GradBucket(bucket, is_last))
            return
        if self._recorder is not None:
            self._record(bucket)
        self._start(bucket, bucket.buffer._array)

    def _record(self, bucket: Bucket) -> None:
        from ...compiler.capture.record_exchange import Transfer

        transfer = bucket.transfer = Transfer(
            self._recorder, "all_reduce", 1 / self.divisor, bucket,
            partial(self._start_arrays, bucket), partial(self._wait_for_result, bucket),
        )
        transfer.sends([bucket.buffer._array])

    @staticmethod
    def _wait_for_result(bucket: Bucket) -> Sequence[np.ndarray]:
        """Wait for a bucket that a compiled program started."""
        assert bucket.work is not None
        bucket.work.wait()
        return bucket.work.result()

    def _start_arrays(self, bucket: Bucket, gradients: Sequence[np.ndarray]) -> None:
        """Start the reduction of a bucket whose gradients are in a compiled program's memory."""
        (array,) = gradients
        self._start(bucket, array)

    def _start(self, bucket: Bucket, array: np.ndarray) -> None:
        """Sum a bucket's gradients in place on the group's thread."""
        engine = self.group._engine
        bucket.work = self.group._communicator.start(
            partial(reduce_array, array, ReduceOp.SUM, engine, engine.all_reduce), [array]
        )

    # ---------------------------------------------------------------- after a backward

    def _finish(self) -> None:
        """Wait for all buckets and give each parameter its average."""
        self.armed = self.is_expecting = False
        used = self._find_used_anywhere()
        for bucket in self.buckets:
            if bucket.work is not None:
                bucket.work.wait()
            elif bucket.future is not None:
                self._take(bucket, bucket.future.wait())
            for parameter, window in zip(bucket.parameters, bucket.views, strict=True):
                if used is None or used[self._order[id(parameter)]]:
                    self._give(parameter, window)
            if bucket.transfer is not None:
                gradients = [parameter._grad for parameter in bucket.parameters]
                bucket.transfer.note_received([bucket.buffer._array], [gradients])
        if self._recorder is not None:
            self._recorder.awaited.pop(id(self), None)
            self._recorder = None

    def _find_used_anywhere(self) -> np.ndarray | None:
        """Return for each parameter whether any process used it, or None if this is not tracked."""
        if not self.finds_unused:
            return None
        used, engine = self._used.copy(), self.group._engine
        self.group._communicator.run(lambda: engine.all_reduce(used, ReduceOp.SUM))
        return used

    @staticmethod
    def _take(bucket: Bucket, result: Any) -> None:
        """Copy a communication hook's result into the bucket."""
        match = result[0] if isinstance(result, (list, tuple)) else result
        if match is not bucket.buffer:
            np.copyto(bucket.buffer._array, match._array.reshape(-1), casting="unsafe")

    def _give(self, parameter: Tensor, window: Tensor) -> None:
        gradient = parameter._grad
        if self.as_view and self._recorder is None:  # compiled gradients lie elsewhere
            if gradient is not window:
                parameter.grad = window.detach()
        elif gradient is None:
            parameter.grad = window.clone()
        elif gradient._array is not window._array:
            np.copyto(gradient._array, window._array)

    # ---------------------------------------------------------------- uneven inputs

    def shadow(self) -> None:
        """Take part in the other processes' backward with zeros: this one has no inputs left."""
        engine, communicator = self.group._engine, self.group._communicator
        if self.comm_hook is None:
            for bucket in self.buckets:
                array = bucket.buffer._array
                array[...] = 0
                communicator.run(partial(reduce_array, array, ReduceOp.SUM, engine,
                                         engine.all_reduce))
        else:
            state, hook = self.comm_hook
            for bucket in self.buckets:
                bucket.buffer._array[...] = 0
                hook(state, GradBucket(bucket, bucket is self.buckets[-1])).wait()
        if self.finds_unused:
            unused = np.zeros(len(self.parameters), np.int32)
            communicator.run(lambda: engine.all_reduce(unused, ReduceOp.SUM))


def _create_unfinished_error(
    missing: Sequence[int], names: Sequence[str], rank: int
) -> RuntimeError:
    """Build the error of a backward that left parameters without a gradient."""
    error = RuntimeError(
        "Expected to have finished reduction in the prior iteration before starting a new one. "
        "This error indicates that your module has parameters that were not used in producing "
        "loss. You can enable unused parameter detection by passing the keyword argument "
        "`find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and "
        "by \nmaking sure all `forward` function outputs participate in calculating loss. \nIf "
        "you already have done the above, then the distributed data parallel module wasn't "
        "able to locate the output tensors in the return value of your module's `forward` "
        "function. Please include the loss function and the structure of the return value of "
        "`forward` of your module when reporting this issue (e.g. list, dict, iterable).\n"
        f"Parameter indices which did not receive grad for rank {rank}: "
        f"{' '.join(map(str, missing))}"
    )
    error.add_note("They are: " + ", ".join(names[number] for number in missing))
    return error


def _create_marked_twice_error(number: int, name: str) -> RuntimeError:
    """Build the error of a gradient that became complete twice in one backward."""
    return RuntimeError(
        "Expected to mark a variable ready only once. This error is caused by one of the "
        "following reasons: 1) Use of a module parameter outside the `forward` function. "
        "Please make sure model parameters are not shared across multiple concurrent "
        "forward-backward passes. or try to use _set_static_graph() as a workaround if this "
        "module graph does not change during training loop.2) Reused parameters in multiple "
        "reentrant backward passes. For example, if you use multiple `checkpoint` functions to "
        "wrap the same part of your model, it would result in the same set of parameters been "
        "used by different reentrant backward passes multiple times, and hence marking a "
        "variable ready multiple times. DDP does not support such use cases in default. You "
        f"can try to use _set_static_graph() as a workaround if your module graph does not "
        f"change over iterations.\nParameter at index {number} with name {name} has been "
        "marked as ready twice."
    )


def iterate_tensors(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested containers and dataclasses."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for element in value.values():
            yield from iterate_tensors(element)
    elif isinstance(value, (list, tuple, set)):
        for element in value:
            yield from iterate_tensors(element)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from iterate_tensors(getattr(value, name))


def find_leaf_ids(outputs: Any) -> set[int]:
    """Return the ids of the leaves that outputs were computed from."""
    leaves: set[int] = set()
    met: set[int] = set()
    stack: list[Any] = []
    for output in iterate_tensors(outputs):
        stack.append(output._history() or output)
    while stack:
        target = stack.pop()
        if target.__class__ is Output:
            target = target.node
        if target is None or id(target) in met:
            continue
        met.add(id(target))
        if isinstance(target, Tensor):
            leaves.add(id(target))
        else:
            stack.extend(target.edges)
    return leaves
