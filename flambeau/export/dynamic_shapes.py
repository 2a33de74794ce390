"""Dim: names and bounds of dimensions that may differ from call to call."""

from __future__ import annotations

from typing import Any

from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree

__all__ = ["Dim", "ShapesCollection", "dims", "dynamic_dims"]

_INFINITE = 2**63 - 2


class _Hint:
    """A way to say that a dimension is dynamic, or not, without a name."""

    def __init__(self, kind: str, min: int = 0, max: int = _INFINITE) -> None:
        self.kind, self.min, self.max = kind, min, max

    def __repr__(self) -> str:
        return f"DimHint({self.kind})"

    def __call__(self, min: int = 0, max: int | None = None) -> _Hint:
        return _Hint(self.kind, min, _INFINITE if max is None else max)


class Dim:
    """A dynamic dimension: dimensions with the same Dim have one length.

    `min`, `max`: the lengths that are allowed. `2 * Dim("half")` is a length derived from another.

    >>> batch = torch.export.Dim("batch", min=2)
    >>> batch.min
    2
    """

    AUTO, DYNAMIC, STATIC = _Hint("AUTO"), _Hint("DYNAMIC"), _Hint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not name.isidentifier():
            raise ValueError(f"Dim name must be a valid identifier, got {name}")
        self.min = 0 if min is None else min
        self.max = _INFINITE if max is None else max
        if self.max <= self.min:
            raise ValueError(f"Cannot create Dim with inconsistent min={self.min}, max={self.max}")
        self.__name__ = name
        self.root: Dim = self
        self.factor, self.offset = 1, 0

    def _derived(self, factor: int, offset: int) -> Dim:
        result = Dim(self.root.__name__, min=self.root.min, max=self.root.max)
        result.root = self.root
        result.factor, result.offset = self.factor * factor, self.offset * factor + offset
        return result

    def __mul__(self, other: int) -> Dim:
        return self._derived(other, 0)

    __rmul__ = __mul__

    def __add__(self, other: int) -> Dim:
        return self._derived(1, other)

    __radd__ = __add__

    def __sub__(self, other: int) -> Dim:
        return self._derived(1, -other)

    def __repr__(self) -> str:
        return f"Dim('{self.__name__}', min={self.min}, max={self.max})"


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several Dims with the same bounds."""
    return tuple(Dim(name, min=min, max=max) for name in names)


class ShapesCollection:
    """Dynamic shapes by tensor: `shapes[x] = {0: batch}`."""

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[Any, Any]] = {}

    def __setitem__(self, t: Any, shape: Any) -> None:
        self._shapes[id(t)] = t, shape

    def __getitem__(self, t: Any) -> Any:
        return self._shapes.setdefault(id(t), (t, {}))[1]

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(self, m: Any, args: Any, kwargs: Any = None) -> Any:
        """The specification for these inputs."""
        return [self._shapes.get(id(x), (x, None))[1]
                for x in pytree.tree_leaves((args, kwargs or {}))]


def dynamic_dims(spec: Any, names: list[str], args: tuple, kwargs: dict) -> dict[int, dict]:
    """For each tensor input, by its place among the leaves: {dimension: Dim or hint}.

    `spec`: by parameter name, or by position. ValueError for one that does not fit.
    """
    if spec is None:
        return {}
    if isinstance(spec, ShapesCollection):
        flat = spec.dynamic_shapes(None, args, kwargs)
        return {i: _of_tensor(s) for i, s in enumerate(flat) if s}
    values = dict(zip(names, args, strict=False)) | kwargs
    if isinstance(spec, (tuple, list)):
        spec = dict(zip(values, spec, strict=False))
    if set(spec) - set(values):
        raise ValueError(
            f"When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg "
            f"names {list(values)} of `inputs`, but here they are {list(spec)}."
        )
    result: dict[int, dict] = {}
    place = 0
    for name, value in values.items():
        count = len(pytree.tree_leaves(value))
        _collect(spec.get(name), value, place, result)
        place += count
    return result


def _collect(spec: Any, value: Any, place: int, result: dict[int, dict]) -> None:
    if spec is None:
        return
    if isinstance(value, Tensor):
        result[place] = _of_tensor(spec)
        return
    if isinstance(value, (list, tuple, dict)):
        keys = value if isinstance(value, dict) else range(len(value))
        for key in keys:
            inner = spec[key] if not isinstance(spec, dict) or key in spec else None
            _collect(inner, value[key], place, result)
            place += len(pytree.tree_leaves(value[key]))


def _of_tensor(spec: Any) -> dict[int, Any]:
    pairs = spec.items() if isinstance(spec, dict) else enumerate(spec)
    return {i: d for i, d in pairs
            if d is not None and not isinstance(d, int)
            and not (isinstance(d, _Hint) and d.kind == "STATIC")}
