"""Returned values: bind the objects that a step returns to the outputs of its graph."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ops.core.return_types import has_named_fields
from ...tensor.layout import as_bytes, find_owner
from ...tensor.tensor import Tensor
from ..capture.returned_tensors import ReturnedTensor
from ..ir.axis_order import invert_permutation, order_axes
from ..ir.graph import permute
from ..lowering.numpy.node_builders import reshape_node
from ..lowering.registry import Untraceable
from ..trace import bindings as bind
from ..trace.carried_values import list_bound_grads
from ..trace.host_numbers import Before, Old, Read
from ..trace.trace import Value
from .complex_pairs import as_pairs, is_complex, permute_window, view_as_pairs_window
from .memory_regions import Region, compute_byte_strides

if TYPE_CHECKING:
    from .functionalize import Functionalization


class ReturnedValues:
    """Binds returned tensors; tensors that share memory keep sharing it."""

    def __init__(self, graph: Functionalization) -> None:
        self.graph = graph
        self.returned: dict[int, Any] = {}  # bindings of returned tensors, by position
        self.crowds: dict[int, int] = {}  # outputs shared by several tensors, by region
        self._find_crowds()

    def bind_value(self, x: Any) -> Any:
        """Return the binding of a returned object and the tensors that it contains."""
        if isinstance(x, Tensor):
            return self._bind_tensor(self.graph.trace.positions[id(x)])
        if x.__class__ is Read:
            return bind.HostScalar(
                *(item if item.__class__ is str else self.bind_value(item) for item in x)
            )
        if x.__class__ in (Old, Before):
            return x
        if x.__class__ in (tuple, list):
            return x.__class__(self.bind_value(item) for item in x)
        if isinstance(x, tuple) and has_named_fields(type(x)):
            return type(x)(*(self.bind_value(item) for item in x))
        if x.__class__ is dict:
            return {key: self.bind_value(item) for key, item in x.items()}
        if x is None or issubclass(type(x), (bool, int, float, str)):
            return bind.ReturnedConstant(x)
        raise Untraceable(f"it returns an object of class {type(x).__name__}")

    def _bind_tensor(self, position: int) -> Any:
        """Return the binding of a returned tensor or of its base, the same for each use."""
        if position not in self.returned:
            self.returned[position] = self._bind_new(position, self.graph.trace.returned[position])
        return self.returned[position]

    def _bind_new(self, position: int, entry: ReturnedTensor) -> Any:
        if entry.leaf is not None:
            return bind.ReturnedArgument(entry.leaf)
        if not entry.is_new:
            return bind.ReturnedConstant(entry.outside)
        window = entry.window
        if window is None:
            raise Untraceable("it returns a tensor whose memory no operator created")
        source = None if entry.source is None else self._bind_tensor(entry.source)
        if not self.graph.trace.storages[window.storage].external:
            memory: Any = self._bind_output(position, window)
        elif entry.requires_grad and not entry.is_leaf:
            raise Untraceable("it returns a view that requires grad")
        else:
            memory = self._bind_outside_memory(position, window)
        backward = self.graph.trace.backward
        live = None if backward is None else backward.positions.get(position)
        owners = () if backward is None else backward.saved_owners
        saved = tuple([item for item, owner in owners if owner.position == position])
        return bind.NewTensor(memory, source, entry.is_view, entry.is_whole, entry.version,
                              entry.requires_grad, entry.is_leaf, entry.node_name,
                              entry.is_inference, live, saved)

    def _bind_outside_memory(self, position: int, window: Value) -> bind.Argument | bind.State:
        """Bind the argument or outside memory in which a new tensor lies."""
        array = self.graph.trace.returned_arrays[position]
        if window.storage not in self.graph.arguments:
            return bind.State(array)
        for i, leaf in enumerate(self.graph.leaves):
            if isinstance(leaf, Tensor) and leaf._array is array:
                order = tuple(range(array.ndim))
                return bind.Argument(i, 0, array.shape, array.strides, array.dtype, order)
        leaf = self.graph.arguments[window.storage]
        return replace(self.graph.bind_argument(leaf, window), order=None)

    def _bind_output(self, position: int, value: Value) -> bind.Output:
        if value.storage in self._list_grad_storages():
            raise Untraceable("it returns the .grad of a parameter")
        array = self.graph.trace.returned_arrays[position]
        if is_complex(value):
            return self._bind_complex(array, value)
        region = self.graph.region(value)
        if self._is_part(value):
            self.crowds.setdefault(id(region), -1)
        if id(region) not in self.crowds and array.base is None and _is_row_major(array):
            self.graph.bindings.expected.append(array.copy())
            self.graph.outputs.append(self.graph.read(value))
            return bind.Output(len(self.graph.outputs) - 1, array.shape, tuple(range(array.ndim)))
        order = order_axes(array.strides)
        back = invert_permutation(order)
        packed = compute_byte_strides(tuple(array.shape[i] for i in order), array.itemsize)
        if id(region) not in self.crowds and tuple(packed[i] for i in back) != array.strides:
            self.crowds[id(region)] = -1
        if id(region) in self.crowds:
            return self._bind_part(region, array, value)
        node = self.graph.read(value)
        self.graph.bindings.expected.append(array.transpose(order).copy())
        self.graph.outputs.append(permute(node, order))
        return bind.Output(len(self.graph.outputs) - 1, array.shape, back)

    def _is_part(self, value: Value) -> bool:
        """Whether a window is less than its storage, of which the result shows the rest, too."""
        geometry = self.graph.trace.storages[value.storage].whole
        return (math.prod(value.shape) * value.dtype.itemsize
                < math.prod(geometry.shape) * geometry.dtype.itemsize)

    def _bind_complex(self, array: np.ndarray, value: Value) -> bind.Output:
        """Bind a complex tensor as a window on pairs."""
        region = self.graph.region(view_as_pairs_window(value))
        if id(region) in self.crowds or self._is_part(value):
            self.crowds.setdefault(id(region), -1)
            return self._bind_part(region, array, value)
        order = order_axes(array.strides)
        packed = compute_byte_strides(tuple(array.shape[i] for i in order), array.itemsize)
        strides = tuple(packed[i] for i in invert_permutation(order))
        if array.size and strides != array.strides:
            self.crowds[id(region)] = -1
            return self._bind_part(region, array, value)
        self.graph.bindings.expected.append(as_pairs(array.transpose(order)).copy())
        self.graph.outputs.append(permute_window(self.graph.read(value), order))
        window = 0, array.strides, array.dtype
        return bind.Output(len(self.graph.outputs) - 1, array.shape, (), window)

    def _list_grad_storages(self) -> set[int]:
        """Return the storages of grads that the call set."""
        values = [self.graph.trace.value_of(access.tensor._grad._array)
                  for access in list_bound_grads(self.graph.trace)
                  if access.tensor._grad is not None]
        return {value.storage for value in values if value is not None}

    def _find_crowds(self) -> None:
        """Find the regions that several returned tensors share."""
        met: set[int] = set()
        for entry in self.graph.trace.returned:
            window = entry.window
            if window is None or self.graph.trace.storages[window.storage].external:
                continue
            key = id(self.graph.region(view_as_pairs_window(window)))
            if key in met:
                self.crowds[key] = -1
            met.add(key)

    def _bind_part(self, region: Region, array: np.ndarray, value: Value) -> bind.Output:
        """Return a tensor's location in the output that is its whole region."""
        strides = tuple(s for _, s in region.axes)
        if 0 not in region.shape and strides != compute_byte_strides(
            region.shape, region.dtype.itemsize
        ):
            raise Untraceable("it returns views that cover their memory with gaps")
        owned = array.base is None and array.flags.c_contiguous and array.size == math.prod(
            region.shape)
        if self.crowds[id(region)] < 0:
            shape = array.shape if owned else region.shape
            memory_value = Value(value.storage, region.offset, region.shape, strides, region.dtype)
            memory = as_bytes(find_owner(array))
            value_now = bind.view_bytes(memory, memory_value).copy().reshape(shape)
            self.graph.bindings.expected.append(value_now)
            self.graph.outputs.append(reshape_node(region.value, shape))
            self.crowds[id(region)] = len(self.graph.outputs) - 1
        number = self.crowds[id(region)]
        is_alike = self.graph.outputs[number].shape == array.shape and not is_complex(value)
        if owned and is_alike:
            return bind.Output(number, array.shape, tuple(range(array.ndim)))
        geometry = value.offset - region.offset, value.strides, value.dtype
        return bind.Output(number, value.shape, (), geometry)


def _is_row_major(array: np.ndarray) -> bool:
    """Whether an array has the strides of a new one, also along axes of one element."""
    return array.flags.c_contiguous and (
        not array.size or array.strides == compute_byte_strides(array.shape, array.itemsize))
