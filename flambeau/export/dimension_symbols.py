"""DimensionSymbols: the dynamic dimensions of a program's inputs, and the guards on them.

A decision that holds for the two lengths of a trace may not hold for all lengths that a Dim
allows. At the end, each decision's condition is checked against the Dim's bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..fx.graph import Graph
from ..fx.node import Node
from ..ops.core.operator import PUBLIC
from ..tensor.tensor import Tensor
from .dynamic_shapes import Dim
from .sized_example import SizedExample
from .symbolic.expressions import INFINITE, Expression, Symbol, SymbolTable
from .symbolic.sizes import SpecializationError, SymbolicSize

__all__ = ["DimensionSymbols"]

_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
# Lengths 0 and 1 are special cases in PyTorch too and are excluded.
_LEAST_COMMON = 2


class DimensionSymbols:
    """A trace's second input, and the symbols of its dynamic dimensions.

    `others`: the inputs with different lengths of dynamic dimensions and similar values. They are
    one longer, so that most decisions hold for both; with `is_far`, more than twice as long.
    """

    def __init__(self, leaves: list[Any], dims: dict[int, dict[int, Any]],
                 is_far: bool = False) -> None:
        self.dims, self.is_far = dims, is_far
        self.lengths: dict[Any, tuple[int, int]] = {}  # of roots, in both inputs
        self.roots: dict[Any, Any] = {}
        self.symbols: dict[Any, Symbol] = {}
        self.others = self._resize(leaves, self._choose_other)

    def _resize(self, leaves: list[Any], length: Callable[[Any, int], int]) -> list[Any]:
        """Return the inputs with each dynamic dimension's length replaced by `length`'s result."""
        take: Callable = PUBLIC["torch"]["index_select"]
        count: Callable = PUBLIC["torch"]["arange"]
        resized = []
        for i, leaf in enumerate(leaves):
            for d, dim in self.dims.get(i, {}).items():
                n = int(leaf.shape[d])
                leaf = take(leaf, d, count(length(dim, n)) % max(n, 1))
            resized.append(leaf)
        return resized

    def far_inputs(self, leaves: list[Any]) -> list[Any] | None:
        """Return inputs more than twice as long, as far as Dims and decisions allow.

        None if only the lengths of the trace are allowed. Call after `check`.
        """
        lengths = {}
        for i, (key, symbol) in enumerate(self.symbols.items()):
            preferred = _choose_far(symbol.value, i)
            allowed = [n for n in (preferred, symbol.high, symbol.value + 2, symbol.value - 1)
                       if max(symbol.low, _LEAST_COMMON) <= n <= symbol.high
                       and n not in (symbol.value, symbol.other) and n <= preferred]
            lengths[key] = allowed[0] if allowed else symbol.value
        if all(lengths[key] == symbol.value for key, symbol in self.symbols.items()):
            return None

        def length(dim: Any, n: int) -> int:
            chosen = lengths[_find_root(dim, n)[0]]
            return dim.fn(chosen) if isinstance(dim, Dim) else chosen

        return self._resize(leaves, length)

    @property
    def names(self) -> list[str]:
        """Return the names of the Dims."""
        return sorted({getattr(d, "__name__", repr(d)) for dims in self.dims.values()
                       for d in dims.values()})

    def _choose_other(self, dim: Any, n: int) -> int:
        """Return the second input's length of a dimension."""
        key, root, value = _find_root(dim, n)
        if key not in self.lengths:
            count = len(self.lengths)
            step = _choose_far(value, count) - value if self.is_far else 1 + count
            step = step if value + step <= root.max else -1 if value > max(root.min, 1) else 1
            self.lengths[key], self.roots[key] = (value, value + step), root
        other = self.lengths[key][1]
        return dim.fn(other) if isinstance(dim, Dim) else other

    def enter(self, table: SymbolTable) -> None:
        """Create a symbol for each root, and record which lengths derive from it."""
        for key, (value, other) in self.lengths.items():
            root = self.roots[key]
            self.symbols[key] = table.add("s", value, other, root.min, root.max)
        for dims in self.dims.values():
            for dim in dims.values():
                if isinstance(dim, Dim) and (dim.factor, dim.offset) != (1, 0):
                    symbol = self.symbols[dim.root.__name__]
                    table.lengths.setdefault((dim.fn(symbol.value), dim.fn(symbol.other)),
                                             _create_expression(dim, symbol))

    # ---------------------------------------------------------------- what is asked of them

    def check(self) -> None:
        """Raise SpecializationError if a decision fails for some length that a Dim allows."""
        broken: list[str] = []
        fixes: list[str] = []
        for key, symbol in self.symbols.items():
            root = self.roots[key]
            low, high, torn = _narrow_bounds(symbol)
            is_named, count = isinstance(root, Dim), len(broken)
            for relation, n, c, line in symbol.guards:
                if is_named and not _holds(relation, n, c, max(root.min, _LEAST_COMMON), root.max):
                    shown = Expression([(symbol, n)])
                    broken.append(
                        f"  - Not all values of {key} in the specified range "
                        f"{_format_range(str(key), root)} satisfy the generated guard "
                        f"{str(shown).replace(symbol.name, str(key))} {_SIGNS[relation]} {-c} "
                        f"({line})"
                    )
            if len(broken) > count and not torn:
                fix = Dim(str(key), min=low, max=high) if low < high else low
                fixes.append(f"  {key} = {fix!r}")
            symbol.low, symbol.high = low, high
        if broken:
            names = ", ".join(map(str, self.symbols))
            advice = "\n\nSuggested fixes:\n" + "\n".join(fixes) if fixes else ""
            raise SpecializationError(
                f"Constraints violated ({names})! For more information, run with "
                f'TORCH_LOGS="+dynamic".\n' + "\n".join(broken) + advice
            )

    def bounds(self, labels: list[str], leaves: list[Any]) -> dict[str, list[list[Any]]]:
        """Return, for each input by name, [length, minimum, maximum] of each dimension.

        A length of None is dynamic; its expression then follows the bounds.
        """
        result: dict[str, list[list[Any]]] = {}
        for i, (label, leaf) in enumerate(zip(labels, leaves, strict=True)):
            result[label] = []
            if isinstance(leaf, Tensor):
                dims = self.dims.get(i, {})
                result[label] = [self._bound(dims.get(d), int(n)) for d, n in enumerate(leaf.shape)]
        return result

    def show(self, graph: Graph, names: list[str]) -> None:
        """Give inputs with dynamic dimensions an example value whose shape names the dimensions."""
        nodes = {node.name: node for node in graph.nodes if node.op == "placeholder"}
        for i, dims in self.dims.items():
            node = nodes[names[i]]
            value = node.meta["val"]
            sizes: list[Any] = list(value.shape)
            for d, dim in dims.items():
                sizes[d] = self._size(dim, int(sizes[d]), node, d)
            node.meta["val"] = SizedExample(value, tuple(sizes))

    def _size(self, dim: Any, n: int, node: Node, d: int) -> SymbolicSize:
        symbol = self.symbols[_find_root(dim, n)[0]]
        other = dim.fn(symbol.other) if isinstance(dim, Dim) else symbol.other

        def make() -> Node:
            raise RuntimeError(f"the size {symbol.name} of an exported program that is finished")

        return SymbolicSize(n, other, make, _create_expression(dim, symbol), SymbolTable())

    def _bound(self, dim: Any, n: int) -> list[Any]:
        if dim is None:
            return [n, n, n]
        symbol = self.symbols[_find_root(dim, n)[0]]
        expression = _create_expression(dim, symbol)
        return [None, *expression.range, str(expression)]


def _choose_far(value: int, count: int) -> int:
    """Return a length whose halves, thirds and the like differ from those of `value`.

    `count`: how many other dimensions already have one.
    """
    return 2 * value + 1 + count


def _find_root(dim: Any, n: int) -> tuple[Any, Any, int]:
    """Return a dimension's root: its key, its Dim with bounds, and its length if `dim` has n.

    Dimensions of the same name are the same, as are unnamed ones of equal length.
    """
    if not isinstance(dim, Dim):
        return n, dim, n
    value, rest = divmod(n - dim.offset, dim.factor)
    if rest:
        raise SpecializationError(
            f"Constraints violated ({dim.__name__})! For more information, run with "
            f'TORCH_LOGS="+dynamic".\n  - Expected input of size {n} to be of the form '
            f"{dim.__name__}, where {dim.root.__name__} is an integer"
        )
    return dim.root.__name__, dim.root, value


def _create_expression(dim: Any, symbol: Symbol) -> Expression:
    return Expression([(symbol, getattr(dim, "factor", 1))], getattr(dim, "offset", 0))


def _narrow_bounds(symbol: Symbol) -> tuple[int, int, bool]:
    """Return the bounds within which a symbol's guards hold, and whether they leave a gap."""
    low, high, holes = symbol.low, symbol.high, []
    for relation, n, c, _ in symbol.guards:
        if n < 0:
            relation = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}.get(relation, relation)
        bound, rest = divmod(-c * (1 if n > 0 else -1), abs(n))
        if relation == "ge":
            low = max(low, bound + bool(rest))
        elif relation == "gt":
            low = max(low, bound + 1)
        elif relation == "le":
            high = min(high, bound)
        elif relation == "lt":
            high = min(high, bound - (not rest))
        elif relation == "ne" and not rest:
            holes.append(bound)
    for hole in sorted(holes):
        low = hole + 1 if low <= hole < _LEAST_COMMON else low
        high = hole - 1 if hole == high else high
    return low, high, any(low <= hole <= high for hole in holes)


def _holds(relation: str, n: int, c: int, low: int, high: int) -> bool:
    """Whether n * s + c has this relation to zero for each s within bounds."""
    ends = sorted((n * low + c, n * high + c))
    if relation == "ne":
        value, rest = divmod(-c, n)
        return bool(rest) or not low <= value <= high
    return {"ge": ends[0] >= 0, "gt": ends[0] > 0, "le": ends[1] <= 0, "lt": ends[1] < 0,
            "eq": ends == [0, 0]}[relation]


def _format_range(name: str, root: Dim) -> str:
    """Format bounds as PyTorch does."""
    if root.max >= INFINITE:
        return f"{name} >= {root.min}" if root.min else name
    return f"{root.min} <= {name} <= {root.max}"
