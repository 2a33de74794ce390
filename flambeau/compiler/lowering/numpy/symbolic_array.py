"""SymbolArray: an array with a known shape and type but no values, on which operator bodies run.

A SymbolArray carries a node of the graph. NumPy's protocols dispatch ufuncs and functions here;
anything without a counterpart in the graph raises Untraceable, so results are never made up. Writes
to a view of a symbol update the symbol by replacing its node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from ....native.loop_ir.ir import Scalar, Type
from ....native.loop_ir.numpy_forms import dtype_of
from ...ir import graph
from ...ir.axis_order import invert_permutation
from ...ir.graph import Node
from ..registry import Untraceable, refuse
from .indexing import expand_ellipsis, match_advanced_index, match_basic_index
from .node_builders import (
    apply_operation, bitcast, broadcast_to, cast, compute_type, literal, reshape_node, type_of,
    where,
)
from .ufuncs import BINARY, UNARY

_NUMBERS = (bool, int, float, np.generic)
_FUNCTIONS: dict[Any, Callable[..., Any]] = {}  # by NumPy's function
UFUNC_METHODS: dict[str, Callable[..., Any]] = {}  # of ufuncs: reduce, accumulate, at


def _identity(node: Node) -> Node:
    return node


def _replace(node: Node, new: Node) -> Node:
    return new


class _Kind(type):
    """Make isinstance(x, np.ndarray) hold in bodies, whose `np.ndarray` is SymbolArray."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance) or isinstance(instance, np.ndarray)


class SymbolArray(metaclass=_Kind):
    """An array represented by a node; a view if it has a base."""

    __slots__ = ("_back", "_base", "_forth", "_node", "_seen", "written")
    __array_priority__ = 1000

    def __init__(self, node: Node) -> None:
        self._node, self.written = node, False
        self._base: SymbolArray | None = None
        self._seen: Node | None = None
        self._forth: Callable[[Node], Node] = _identity
        self._back: Callable[[Node, Node], Node] = _replace

    @classmethod
    def window(cls, base: SymbolArray, forth: Callable, back: Callable) -> SymbolArray:
        """A view of forth(base's node); back(base's node, new) is the base after a write."""
        view = cls(forth(base.node))
        view._base, view._seen, view._forth, view._back = base, base.node, forth, back
        return view

    @property
    def node(self) -> Node:
        """The current value."""
        if self._base is not None:
            below = self._base.node
            if below is not self._seen:
                self._node, self._seen = self._forth(below), below
        return self._node

    def assign(self, node: Node) -> None:
        """Overwrite the whole array with a value."""
        node = broadcast_to(cast(node, self._node.type), self.shape)
        if self._base is None:
            self._node, self.written = node, True
        else:
            self._base.assign(self._back(self._base.node, node))

    # ------------------------------------------------------------------------ attributes

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self._node.shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype."""
        return dtype_of(self._node.type)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._node.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self._node.shape)

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self._node.type.size

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def flags(self) -> Any:
        """The flags of a row-major array that owns its memory."""
        return SimpleNamespace(c_contiguous=True, f_contiguous=self.ndim < 2, writeable=True)

    @property
    def T(self) -> SymbolArray:
        """Axes reversed."""
        return self.transpose()

    @property
    def real(self) -> SymbolArray:
        """The array itself: there are no complex symbols."""
        return self

    @property
    def imag(self) -> SymbolArray:
        """Zero."""
        return SymbolArray(graph.constant(0, self._node.type, self.shape))

    def __len__(self) -> int:
        return self.shape[0] if self.ndim else refuse("len() of a scalar")

    def __iter__(self) -> Iterator[SymbolArray]:
        return iter([self[i] for i in range(len(self))])

    # ------------------------------------------------------------------------ no values

    def _refuse_value_read(self, *_: Any, **__: Any) -> Any:
        raise Untraceable("reads a value")

    __bool__ = __float__ = __int__ = __index__ = __complex__ = __contains__ = _refuse_value_read
    __array__ = item = tolist = tobytes = nonzero = _refuse_value_read
    argsort = sort = searchsorted = _refuse_value_read

    # ------------------------------------------------------------------------ protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__":
            if method not in UFUNC_METHODS:
                refuse(f"{ufunc.__name__}.{method}")
            return UFUNC_METHODS[method](ufunc, *inputs, **options)
        return call_ufunc(ufunc, inputs, **options)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func not in _FUNCTIONS:
            refuse(f"numpy.{func.__name__}")
        return _FUNCTIONS[func](*args, **kwargs)

    # ------------------------------------------------------------------------ windows

    def __getitem__(self, index: Any) -> SymbolArray:
        items = expand_ellipsis(index, self.ndim)
        if not any(_is_array(item) for item in items):
            index_of_arrays = match_basic_index(self.shape, tuple(items))
            return SymbolArray.window(self, index_of_arrays.read, index_of_arrays.written)
        _, plain, index_of_arrays = self._split_positions(items)
        return SymbolArray(index_of_arrays.read(plain(self.node)))

    def _split_positions(self, items: Sequence[Any]) -> tuple[Any, Callable[[Node], Node], Any]:
        """Split an index with arrays: shape and reader of the basic part, then the positions."""
        if any(_is_array(i) and np.dtype(i.dtype).kind not in "iu" for i in items):
            refuse("a boolean mask as an index")
        if any(item is None for item in items):
            refuse("np.newaxis next to arrays in an index")
        lead = [slice(None) if _is_array(item) else item for item in items]
        if any(not isinstance(item, slice) for item in lead):
            refuse("integers next to arrays in an index")
        window = match_basic_index(self.shape, tuple(lead))
        rest = [convert_to_node(i) if _is_array(i) else slice(None) for i in items]
        return window.result, window.read, match_advanced_index(window.result, rest)

    def __setitem__(self, index: Any, value: Any) -> None:
        items = expand_ellipsis(index, self.ndim)
        if any(_is_array(item) for item in items):
            refuse("assignment through an index array")
        source = convert_to_node(value, self.dtype)
        shape = match_basic_index(self.shape, tuple(items)).result
        while len(source.shape) > len(shape) and source.shape[0] == 1:
            source = reshape_node(source, source.shape[1:])
        self[tuple(items)].assign(source)

    def reshape(self, *shape: Any, order: str = "C", copy: Any = None) -> SymbolArray:
        """A view with another shape."""
        requested = shape[0] if len(shape) == 1 and not hasattr(shape[0], "__index__") else shape
        requested = reshape_node(self._node, tuple(requested)).shape
        old_shape = self.shape
        return SymbolArray.window(
            self, lambda n: reshape_node(n, requested), lambda n, v: reshape_node(v, old_shape))

    def transpose(self, *axes: Any) -> SymbolArray:
        """A view with permuted axes."""
        if len(axes) == 1 and (axes[0] is None or not hasattr(axes[0], "__index__")):
            axes = axes[0]
        order = tuple(range(self.ndim))[::-1] if not axes else \
            tuple(int(a) % self.ndim for a in axes)
        inverse = invert_permutation(order)
        return SymbolArray.window(
            self, lambda n: graph.permute(n, order), lambda n, v: graph.permute(v, inverse)
        )

    def swapaxes(self, a: int, b: int) -> SymbolArray:
        """Exchange two axes."""
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self.transpose(order)

    def squeeze(self, axis: Any = None) -> SymbolArray:
        """Drop axes of extent 1."""
        axes = range(self.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        removed = {a % self.ndim for a in axes if axis is not None or self.shape[a] == 1}
        return self.reshape([n for i, n in enumerate(self.shape) if i not in removed])

    def view(self, dtype: Any = None) -> SymbolArray:
        """A view of the whole array; with a dtype of the same size, its bits reinterpreted."""
        if dtype is None:
            return self.reshape(self.shape)
        type = type_of(dtype)
        if type.size != self._node.type.size:
            refuse("a view with a different element size")
        before = self._node.type
        return SymbolArray.window(self, lambda n: bitcast(n, type), lambda n, v: bitcast(v, before))

    # ------------------------------------------------------------------------ copies

    def astype(self, dtype: Any, copy: bool = True, **_: Any) -> SymbolArray:
        """Convert to another dtype."""
        type = type_of(dtype)
        if type is self._node.type and not copy:
            return self
        return SymbolArray(cast(self.node, type))

    def copy(self, order: str = "C") -> SymbolArray:
        """A copy, which no longer shares writes."""
        return SymbolArray(self.node)

    def flatten(self) -> SymbolArray:
        """A copy with one axis."""
        return self.reshape(-1).copy()

    def fill(self, value: Any) -> None:
        """Write one number everywhere."""
        self[...] = value

    def __copy__(self) -> SymbolArray:
        return self.copy()

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name, None)
        if function in _FUNCTIONS:
            return lambda *args, **kwargs: _FUNCTIONS[function](self, *args, **kwargs)
        raise Untraceable(f"ndarray.{name}")


Symbol = Any  # a SymbolArray, for code that calls NumPy's functions on it


def wrap_node(node: Node) -> Symbol:
    """A symbol that carries a node."""
    return SymbolArray(node)


def implements(*functions: Callable) -> Callable[[Callable], Callable]:
    """Register the implementation of NumPy functions on symbols."""

    def decorate(implementation: Callable) -> Callable:
        for function in functions:
            _FUNCTIONS[function] = implementation
        return implementation

    return decorate


def _is_array(item: Any) -> bool:
    return item.__class__ is SymbolArray or isinstance(item, (np.ndarray, list))


def is_symbol(x: Any) -> bool:
    """Whether x is a symbol."""
    return x.__class__ is SymbolArray


def convert_to_node(x: Any, dtype: Any = None) -> Node:
    """The node of a symbol, array or number, cast to `dtype` if given."""
    if x.__class__ is SymbolArray:
        return x.node if dtype is None else cast(x.node, type_of(dtype))
    if isinstance(x, Node):
        return x
    if isinstance(x, (list, tuple)) and any(is_symbol(v) for v in x):
        refuse("an array built from a list of symbols")
    with np.errstate(all="ignore"):
        return literal(np.asarray(x) if dtype is None else np.asarray(x).astype(dtype))


# ------------------------------------------------------------------------------- ufuncs


@lru_cache(maxsize=4096)
def _resolve_types(ufunc: np.ufunc, kinds: tuple) -> tuple[np.dtype, ...]:
    return ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout))


def get_promotion_operand(x: Any) -> Any:
    """An operand for NumPy's promotion: a dtype, or a Python number's class."""
    if x.__class__ is SymbolArray:
        return x.node.attributes.get("weak") or x.dtype
    if isinstance(x, (np.ndarray, np.generic)):
        return x.dtype
    if x.__class__ in (int, float):
        return x.__class__
    return np.asarray(x).dtype


def make_promotion_proxy(x: Any) -> Any:
    """A stand-in for an operand in PyTorch's promotion: a small array, or a number."""
    if x.__class__ is not SymbolArray:
        return x
    weak = x.node.attributes.get("weak")  # a Python number read on each call
    return weak(0) if weak is not None else np.zeros((1,) * x.ndim, x.dtype)


def call_ufunc(
    ufunc: np.ufunc, inputs: tuple, out: Any = None, dtype: Any = None, where: Any = True,
    casting: Any = None, **options: Any,
) -> SymbolArray:
    """Apply a ufunc to symbols, arrays and numbers."""
    if options:
        refuse(f"{ufunc.__name__} with {', '.join(options)}")
    if ufunc is np.matmul:
        return _store(matmul_symbols(*map(convert_to_node, inputs)), out, where)
    table: dict[str, Callable[..., Node]] = UNARY if len(inputs) == 1 else BINARY
    builder = table.get(ufunc.__name__)
    if builder is None or len(inputs) > 2 or ufunc.nout != 1:
        return refuse(f"ufunc {ufunc.__name__}")
    kinds = _resolve_types(ufunc, tuple(map(get_promotion_operand, inputs)))
    if dtype is not None:
        kinds = (np.dtype(dtype),) * (len(inputs) + 1)
    nodes = [convert_to_node(x, kind) for x, kind in zip(inputs, kinds, strict=False)]
    inside = compute_type(nodes[0].type)
    if inside is not nodes[0].type:
        nodes = [cast(n, inside) for n in nodes]
    return _store(cast(builder(*nodes), type_of(kinds[-1])), out, where)


def apply_elementwise(operation: Scalar, x: Symbol) -> Symbol:
    """Apply a scalar operation to one symbol, computing half precision in F32."""
    node = x.node
    return wrap_node(cast(apply_operation(operation, cast(node, compute_type(node.type))),
                          node.type))


def _store(node: Node, out: Any, mask: Any) -> SymbolArray:
    """Return the result; given `out`, write it there where the mask holds, and return `out`."""
    out = out[0] if isinstance(out, tuple) else out
    if out is None or out is Ellipsis:
        if mask is not True:
            refuse("where= without out=")
        return SymbolArray(node)
    if out.__class__ is not SymbolArray:
        refuse("out= that is not symbolic")
    node = cast(node, out._node.type)
    out.assign(node if mask is True else where(convert_to_node(mask), node, out.node))
    return out


def choose_full_precision(type: Type) -> int | None:
    """The matmul precision that represents a type exactly; None to follow the user's setting."""
    return 1 if type is Type.BF16 else None


def matmul_symbols(a: Node, b: Node) -> Node:
    """a @ b as in np.matmul: vectors are rows or columns, batches broadcast."""
    type = type_of(np.result_type(dtype_of(a.type), dtype_of(b.type)))
    inside = compute_type(type)
    a, b = cast(a, inside), cast(b, inside)
    row, column = len(a.shape) == 1, len(b.shape) == 1
    a = reshape_node(a, (1, *a.shape)) if row else a
    b = reshape_node(b, (*b.shape, 1)) if column else b
    lead, (m, k), n = a.shape[:-2], a.shape[-2:], b.shape[-1]
    if len(b.shape) == 2 and lead:  # one large product
        result = graph.matmul(reshape_node(a, (math.prod(lead) * m, k)), b,
                              choose_full_precision(type))
    else:
        rank = max(len(a.shape), len(b.shape))
        a, b = (reshape_node(x, (1,) * (rank - len(x.shape)) + x.shape) for x in (a, b))
        result = graph.matmul(a, b, choose_full_precision(type))
        lead = result.shape[:-2]
    shape = (*lead, *(() if row else (m,)), *(() if column else (n,)))
    return cast(reshape_node(result, shape), type)


_OPERATORS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide,
    "floordiv": np.floor_divide, "mod": np.remainder, "pow": np.power, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "lshift": np.left_shift,
    "rshift": np.right_shift, "matmul": np.matmul,
}
_COMPARISONS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
                "gt": np.greater, "ge": np.greater_equal}
_SIGNS = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}


def _install() -> None:
    """Define Python's operators by the ufuncs NumPy uses for them."""
    for name, ufunc in (_OPERATORS | _COMPARISONS).items():
        setattr(SymbolArray, f"__{name}__", lambda a, b, u=ufunc: call_ufunc(u, (a, b)))
    for name, ufunc in _OPERATORS.items():
        setattr(SymbolArray, f"__r{name}__", lambda a, b, u=ufunc: call_ufunc(u, (b, a)))
        setattr(SymbolArray, f"__i{name}__", lambda a, b, u=ufunc: call_ufunc(u, (a, b), out=a))
    for name, ufunc in _SIGNS.items():
        setattr(SymbolArray, f"__{name}__", lambda a, u=ufunc: call_ufunc(u, (a,)))


_install()
SymbolArray.__hash__ = object.__hash__
