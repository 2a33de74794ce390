"""Recorder: runs a program on real tensors, and makes a graph of the operators that it calls."""

from __future__ import annotations

import linecache
import operator
from collections.abc import Callable
from typing import Any

from ..fx.graph import Graph
from ..fx.node import _RANDOM, Node
from ..fx.trace_errors import explain, user_frame
from ..ops.core.aten import aten
from ..ops.interception import torch_function
from ..overrides import TorchFunctionMode
from ..tensor.size import Size
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from .aten_calls import aten_call, getitem_steps
from .errors import UserError
from .sizes import SymbolicSize, plain, twin

__all__ = ["Recorder"]

# What a program asks of a tensor that depends on its values: no graph can answer.
_VALUES = frozenset(("item", "tolist", "__bool__", "__int__", "__float__", "__index__", "numpy",
                     "__complex__", "equal", "allclose", "is_nonzero"))
# What depends on shape and dtype alone.
_FACTS = frozenset(("dim", "ndimension", "is_floating_point", "is_complex", "is_contiguous",
                    "stride", "element_size", "storage_offset", "data_ptr", "is_tensor",
                    "is_same_size", "get_device", "is_signed", "__len__", "is_inference",
                    "is_conj", "is_neg", "result_type", "__repr__", "__format__", "has_names",
                    "_has_torch_function", "is_set_to", "is_pinned"))
_SIZES = frozenset(("size", "numel", "nelement"))
# Functions of nn.functional whose parts are recorded instead of them.
_OPENED = frozenset(("multi_head_attention_forward", "normalize", "cosine_similarity", "glu",
                     "scaled_dot_product_attention_"))


class Recorder(TorchFunctionMode):
    """Records what is called on the tensors that `know` was told of.

    `twins`: whether a second input of other sizes runs along, by which dynamic sizes are told.
    `lift`: what gives the node of a tensor that comes from outside.
    """

    def __init__(self, graph: Graph, lift: Callable[[Tensor], Node], twins: bool) -> None:
        self.graph, self.lift, self.twins = graph, lift, twins
        # By id; the tensor is stored too, so that its id is not given to another one.
        self.known: dict[int, tuple[Tensor, Node, Any]] = {}
        self.stack: dict[str, tuple[str, Any]] = {}
        self.fixed: set[Node] = set()  # those that depend on no input
        names = torch_function.properties()
        self.properties = {p.__get__: name for name, p in names.items()}

    # ---------------------------------------------------------------- values and nodes

    def know(self, tensor: Tensor, node: Node, other: Any = None) -> None:
        """Tell which node computes a tensor, and what the second input has there."""
        node.meta["val"] = tensor
        self.known[id(tensor)] = tensor, node, tensor if other is None else other

    def node_of(self, value: Any) -> Any:
        """What stands for a value in the graph."""
        if isinstance(value, Tensor):
            entry = self.known.get(id(value))
            if entry is None:
                node = self.lift(value)
                self.fixed.add(node)
                self.known[id(value)] = entry = value, node, value
            return entry[1]
        return value.node if isinstance(value, SymbolicSize) else value

    def twin_of(self, value: Any) -> Any:
        """What the second input has in the place of a value."""
        if isinstance(value, Tensor):
            entry = self.known.get(id(value))
            return value if entry is None else entry[2]
        return twin(value)

    def shape_of(self, tensor: Tensor) -> Any:
        """The tensor's shape, in which lengths that vary are symbolic."""
        entry = self.known.get(id(tensor))
        if entry is None or not self.twins or entry[2] is tensor:
            return tensor.shape
        return tuple.__new__(Size, [
            a if a == b else SymbolicSize(a, b, self._reads(entry[1], i))
            for i, (a, b) in enumerate(zip(tensor.shape, entry[2].shape, strict=True))
        ])

    def _reads(self, node: Node, dim: int) -> Callable[[], Node]:
        return lambda: self.graph.call_function(aten.sym_size.int, (node, dim))

    # ---------------------------------------------------------------- calls

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run a call and record it."""
        kwargs = kwargs or {}
        attribute = self.properties.get(func)
        if attribute is not None:
            return self.read(attribute, func, args)
        name = getattr(func, "__name__", "")
        if name in _FACTS or name in _SIZES:
            return self.fact(name, func, args, kwargs)
        if name in _VALUES:
            entry = self.known.get(id(args[0]))
            if entry is not None and entry[1] not in self.fixed:
                self.refuse(name)
            return func(*args, **kwargs)
        if name in _OPENED:
            torch_function.STATE.modes.append(self)
            try:
                return getattr(func, "__wrapped__", func)(*args, **kwargs)
            finally:
                torch_function.STATE.modes.remove(self)
        return self.record(func, args, kwargs)

    def read(self, name: str, getter: Any, args: Any) -> Any:
        """An attribute of a tensor."""
        tensor = args[0]
        if name == "shape":
            return self.shape_of(tensor)
        value = getter(tensor)
        if not isinstance(value, Tensor) or name == "grad":
            return value
        if name == "data":
            return self.record(Tensor.detach, (tensor,), {})
        if name in ("T", "mT", "H", "mH"):
            order = list(range(tensor.ndim))
            order[-2:] = order[-2:][::-1]
            order = order if name.startswith("m") or tensor.ndim == 2 else order[::-1]
            return self.record(Tensor.permute, (tensor, order), {})
        return self.record(name, (tensor,), {})

    def fact(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """A size, or what depends on none."""
        if name not in _SIZES:
            return func(*args, **kwargs)
        shape = self.shape_of(args[0])
        if name == "size":
            dim = args[1] if len(args) > 1 else kwargs.get("dim")
            return shape if dim is None else shape[dim]
        count: Any = 1
        for length in shape:
            count = length * count
        return count

    def refuse(self, name: str) -> None:
        """A value decides over the program: RuntimeError that names the line."""
        error = UserError(
            f"Could not guard on data-dependent expression: the program asks for the value of a "
            f"tensor ({name.strip('_')}), which an exported graph does not know"
        )
        explain(error, "Compute with tensors instead: torch.where for a branch, a mask for a "
                       "selection.")
        raise error

    def record(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run a call, and add the nodes that compute it."""
        name = getattr(func, "__name__", "")
        if name == "__getitem__":
            steps = getitem_steps(args[0], args[1])
            steps = steps or [(operator.getitem, list(args), {})]
        elif name == "__setitem__":
            self.run(func, args, kwargs)
            self.add(operator.setitem, list(args), {}, None)
            return None
        else:
            steps = aten_call(func, args, kwargs)
        value: Any = None
        for target, step_args, step_kwargs in steps:
            step_args = [value if a is ... else a for a in step_args]
            call = func if len(steps) == 1 and name != "__getitem__" else target
            run_args = args if call is func else step_args
            run_kwargs = kwargs if call is func else step_kwargs
            value, other = self.run(call, run_args, run_kwargs)
            node = self.add(target, step_args, step_kwargs, value)
            value = self.receive(value, other, node)
        return value

    def run(self, func: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The results of a call for both inputs."""
        value = func(*pytree.tree_map(plain, args), **pytree.tree_map(plain, kwargs))
        if not self.twins:
            return value, None
        others = pytree.tree_map(self.twin_of, (list(args), kwargs))
        if all(a is b for a, b in zip(pytree.tree_leaves((list(args), kwargs)),
                                      pytree.tree_leaves(others), strict=True)):
            return value, value
        return value, func(*others[0], **others[1])

    def add(self, target: Any, args: Any, kwargs: Any, value: Any) -> Node:
        """Add a node, with where it comes from."""
        result = tuple(pytree.tree_map(self.node_of, list(args)))
        words = pytree.tree_map(self.node_of, dict(kwargs))
        name = getattr(target, "overloadpacket", None)
        node = self.graph.create_node("call_function", target, result, words,
                                      None if name is None else name.__name__)
        node.meta["nn_module_stack"] = dict(self.stack)
        node.meta["val"] = value
        if self.fixed.issuperset(node.all_input_nodes) and \
                getattr(target, "__name__", "").partition(".")[0] not in _RANDOM:
            self.fixed.add(node)
        frame = user_frame()
        if frame is not None:
            code = frame.f_code
            line = linecache.getline(code.co_filename, frame.f_lineno).strip()
            node.meta["stack_trace"] = (
                f'File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}\n    {line}'
            )
        return node

    def receive(self, value: Any, other: Any, node: Node) -> Any:
        """Tell which nodes compute the parts of a result."""
        if isinstance(value, Tensor):
            self.know(value, node, other)
            return value
        if isinstance(value, (tuple, list)):
            for i, part in enumerate(value):
                if isinstance(part, (Tensor, tuple, list)):
                    item = self.graph.call_function(operator.getitem, (node, i))
                    item.meta.update(nn_module_stack=dict(self.stack), val=part)
                    if node in self.fixed:
                        self.fixed.add(item)
                    self.receive(part, None if other is None else other[i], item)
        return value
