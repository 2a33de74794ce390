"""FlatParamHandle: the flat parameter of a unit; gathers it, frees it, shows it to the modules."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ... import ops
from ...autograd.function import Function
from ...autograd.mode import enable_grad
from ...nn.module import Module
from ...tensor import Tensor
from ...tensor.tensor import wrap
from ..process_group import ProcessGroup
from ..work import Work
from .flat_layout import FlatLayout, FlatParameter, Segment
from .released_memory import ReleasableArray

FLAT_PARAM = "_flat_param"


class _Unflatten(Function):
    """Views of a gathered flat parameter; backward writes their gradients into one flat array."""

    @staticmethod
    def forward(ctx: Any, flat: Tensor, handle: FlatParamHandle) -> tuple[Tensor, ...]:
        segments = handle.layout.segments
        ctx.handle, ctx.segments = handle, segments
        ctx.length, ctx.dtype = flat.shape[0], flat._array.dtype
        ctx.set_materialize_grads(False)
        views = tuple(wrap(segment.of(flat._array)) for segment in segments)
        ctx.mark_non_differentiable(*(
            view for view, segment in zip(views, segments, strict=True)
            if not segment.requires_grad
        ))
        return views

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor, None]:
        if not ctx.handle.is_gathered:
            raise build_lost_outputs_error(ctx.handle.module)
        flat = np.zeros(ctx.length, ctx.dtype)
        for segment, gradient in zip(ctx.segments, gradients, strict=True):
            if gradient is not None:
                np.copyto(segment.of(flat), gradient._array, casting="unsafe")
        return wrap(flat), None


def build_lost_outputs_error(module: Module) -> RuntimeError:
    """Build the error of a backward through outputs that no hook was placed on."""
    error = RuntimeError(
        f"FullyShardedDataParallel: backward reached {type(module).__name__} before its parameters "
        "were gathered"
    )
    error.add_note("Return its outputs as tensors, or in lists, tuples, dicts or dataclasses: "
                   "tensors in other objects are not found.")
    return error


class FlatParamHandle:
    """The flat parameter of one unit.

    `flat_param` is this process's shard. `gathered` is the whole, a leaf of the graph whose views
    the modules use in forward and backward. Frozen or unsharded units follow the same path.
    """

    def __init__(
        self, module: Module, layout: FlatLayout, group: ProcessGroup, is_sharded: bool,
        use_orig_params: bool, param_dtype: Any, reduce_dtype: Any,
        replicas: ProcessGroup | None = None,
    ) -> None:
        self.module, self.layout, self.group, self.replicas = module, layout, group, replicas
        self.uses_sharded_strategy, self._use_orig_params = is_sharded, use_orig_params
        self.param_dtype, self.reduce_dtype = param_dtype, reduce_dtype
        self.keeps_low_precision = False
        self.rank = group.rank() if is_sharded else 0
        self.is_gathered, self._gathering = False, None
        self.reducing: tuple[Work, np.ndarray] | None = None
        self.buffer: ReleasableArray | None = None
        self.gathered: Tensor | None = None
        self.flat_param = self._shard_of(layout)
        self._gradient: np.ndarray | None = None  # of the shard, with use_orig_params
        self.requires_grad = any(segment.requires_grad for segment in layout.segments)
        self.flat_param.requires_grad_(self.requires_grad)
        self._register()
        self.show_shards()

    _gathering: tuple[Work, np.ndarray] | None

    # ------------------------------------------------------------------------ construction

    def _shard_of(self, layout: FlatLayout) -> FlatParameter:
        """Flatten the parameters and copy this process's shard."""
        dtype = layout.segments[0].parameter._array.dtype
        flat = np.zeros(layout.length, dtype)
        for segment in layout.segments:
            np.copyto(segment.of(flat), segment.parameter._array)
        length = layout.shard_length
        return FlatParameter(wrap(flat[self.rank * length :][:length].copy()), requires_grad=False)

    def _register(self) -> None:
        """Replace the parameters by the flat one in the modules' dictionaries."""
        if not self._use_orig_params:
            for segment in self.layout.segments:
                for module, name in segment.places:
                    module._parameters.pop(name, None)
            self.module.register_parameter(FLAT_PARAM, self.flat_param)

    @property
    def shard(self) -> np.ndarray:
        """This process's part of the flat parameter."""
        return self.flat_param._array

    def own_part(self, segment: Segment) -> slice:
        """Return a parameter's slice of this process's shard; it may be empty."""
        length = self.layout.shard_length
        return segment.within(self.rank * length, length)

    def part_of(self, segment: Segment, whole: np.ndarray) -> np.ndarray:
        """Return the elements of a whole parameter that this process's shard holds."""
        start = self.rank * self.layout.shard_length
        return segment.flatten(whole, self.own_part(segment), start)

    # ------------------------------------------------------------------------ gathering

    def collect_shard(self) -> None:
        """Copy back parameters that a program replaced through `.data` or `.to(dtype)`."""
        if not self._use_orig_params:
            return
        segments = self.layout.segments
        strays = [s for s in segments if not np.may_share_memory(s.parameter._array, self.shard)
                  and s.parameter._array.size]
        if not strays:
            return
        dtype = strays[0].parameter._array.dtype
        if len(strays) == sum(bool(s.parameter._array.size) for s in segments) \
                and dtype != self.shard.dtype:
            self.flat_param.data = wrap(self.shard.astype(dtype))
        for segment in strays:
            own, array = self.own_part(segment), segment.parameter._array
            source = array.reshape(-1)
            if not self.uses_sharded_strategy or source.size == own.stop - own.start:
                np.copyto(self.shard[own], source, casting="unsafe")
            else:
                np.copyto(self.shard[own], self.part_of(segment, source), casting="unsafe")
        self.show_shards()

    def _choose_computing_dtype(self) -> np.dtype:
        dtype = self.param_dtype
        return self.shard.dtype if dtype is None else ops.empty(0, dtype=dtype)._array.dtype

    def _allocate(self) -> None:
        """Create the gathered leaf. Without sharding or casts it is the parameter's own memory."""
        dtype = self._choose_computing_dtype()
        if self.gathered is not None and self.gathered._array.dtype == dtype and (
                self.buffer is not None or self.gathered._array is self.shard):
            return
        if self.uses_sharded_strategy or dtype != self.shard.dtype:
            self.buffer = ReleasableArray(self.layout.length, dtype)
            array = self.buffer.array
        else:
            self.buffer, array = None, self.shard
        self.gathered = wrap(array)
        self.gathered._array = array
        if self.requires_grad:
            self.gathered.requires_grad_()

    def start_gathering(self) -> None:
        """Start gathering, unless done or in progress."""
        if self.is_gathered or self._gathering is not None or not self.uses_sharded_strategy:
            return
        self.collect_shard()
        self._allocate()
        assert self.buffer is not None
        source = self.shard.astype(self.buffer.array.dtype, copy=False)
        self._gathering = self.group._communicator.start(
            partial(self.group._engine.all_gather, self.buffer.array, source)
        ), source

    def gather(self) -> None:
        """Give `gathered` its values."""
        if self.is_gathered:
            return
        if self.uses_sharded_strategy:
            self.start_gathering()
            assert self._gathering is not None
            work, self._gathering = self._gathering[0], None
            work.wait()
        else:
            self.collect_shard()
            self._allocate()
            if self.buffer is not None:
                np.copyto(self.buffer.array, self.shard, casting="unsafe")
        self.is_gathered = True

    def release(self) -> None:
        """Free the gathered parameter."""
        if self._gathering is not None:
            self._gathering[0].wait()
            self._gathering = None
            self.is_gathered = True
        if self.is_gathered and self.buffer is not None:
            self.buffer.release()
        self.is_gathered = False

    def whole(self) -> np.ndarray:
        """Return a copy of the whole flat parameter in its own dtype. All processes must call."""
        self.collect_shard()
        return self.gather_flat(self.shard)

    def gather_flat(self, shard: np.ndarray) -> np.ndarray:
        """Return the concatenation of all processes' arrays, which have a shard's length."""
        if not self.uses_sharded_strategy:
            return shard.copy()
        flat = np.empty(self.layout.length, shard.dtype)
        engine = self.group._engine
        self.group._communicator.run(partial(engine.all_gather, flat, np.ascontiguousarray(shard)))
        return flat

    # ------------------------------------------------------------------------ what modules see

    def show_gathered(self) -> None:
        """Make the modules' attributes views of the gathered parameter, part of the graph."""
        assert self.gathered is not None
        views = _Unflatten.apply(self.gathered, self)
        for segment, view in zip(self.layout.segments, views, strict=True):
            for module, name in segment.places:
                module.__dict__[name] = view

    def show_gathered_for_recomputation(self) -> None:
        """Show the gathered parameter to modules that checkpointing runs again in backward."""
        with enable_grad():
            self.show_gathered()

    def show_shards(self) -> None:
        """Make the modules' attributes parameters again, each this process's part."""
        if self._use_orig_params:
            for segment in self.layout.segments:
                array = self.shard[self.own_part(segment)]
                segment.parameter._array = (
                    array if self.uses_sharded_strategy else array.reshape(segment.shape)
                )
        for segment in self.layout.segments:
            for module, name in segment.places:
                if self._use_orig_params:
                    module.__dict__.pop(name, None)
                else:  # wrong shapes are better than wrong values
                    module.__dict__[name] = wrap(self.shard[self.own_part(segment)])
