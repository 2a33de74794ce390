"""Dim: names and bounds of dimensions whose lengths may vary between calls."""

from __future__ import annotations

import inspect
from typing import Any

from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from .errors import UserError, UserErrorType
from .symbolic.expressions import INFINITE

__all__ = ["Dim", "ShapesCollection", "collect_dynamic_dims", "dims"]


class _Hint:
    """Marks a dimension without a name as dynamic, static or to be decided by the trace."""

    def __init__(self, kind: str, min: int = 0, max: int = INFINITE) -> None:
        self.kind, self.min, self.max = kind, min, max

    def __repr__(self) -> str:
        return f"DimHint({self.kind})"

    def __call__(self, min: int = 0, max: int | None = None) -> _Hint:
        return _Hint(self.kind, min, INFINITE if max is None else max)


class Dim:
    """A dynamic dimension: dimensions with the same Dim have one length.

    `min`, `max`: the lengths that are allowed. `2 * Dim("half")` is a length derived from another.

    >>> batch = torch.export.Dim("batch", min=2)
    >>> batch, (2 * batch + 1).fn(5)
    (Dim('batch', min=2), 11)
    """

    AUTO, DYNAMIC, STATIC = _Hint("AUTO"), _Hint("DYNAMIC"), _Hint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not name.isidentifier():
            raise ValueError(f"Dim name must be a valid identifier, got {name}")
        self.min = 0 if min is None else min
        self.max = INFINITE if max is None else max
        if self.max <= self.min:
            raise ValueError(f"Cannot create Dim with inconsistent min={self.min}, max={self.max}")
        self.__name__ = name
        self.root: Dim = self
        self.factor, self.offset = 1, 0

    def _derive(self, factor: int, offset: int) -> DerivedDim:
        return DerivedDim(self.root, self.factor * factor, self.offset * factor + offset)

    def fn(self, length: int) -> int:
        """Return the length when the root's is `length`."""
        return self.factor * length + self.offset

    def __mul__(self, other: int) -> Dim:
        _check_number(self, other, "multiply", "with")
        if other <= 0:
            raise NotImplementedError(
                f"Attempted to multiply {other} with {self.__name__}, where a positive integer was "
                "expected. (Only increasing linear operations with integer coefficients are "
                "supported.)"
            )
        return self._derive(other, 0)

    __rmul__ = __mul__

    def __add__(self, other: int) -> Dim:
        _check_number(self, other, "add", "to")
        return self._derive(1, other)

    __radd__ = __add__

    def __sub__(self, other: int) -> Dim:
        _check_number(self, other, "subtract", "from")
        return self._derive(1, -other)

    def __rsub__(self, other: int) -> Dim:
        raise NotImplementedError(
            f"Attempted to negate {self.__name__}. (Only increasing linear operations with integer "
            "coefficients are supported.)"
        )

    def __repr__(self) -> str:
        low = f", min={self.min}" if self.min else ""
        high = f", max={self.max}" if self.max < INFINITE else ""
        return f"Dim('{self.__name__}'{low}{high})"


class DerivedDim(Dim):
    """A multiple of another dimension's length, with a constant added."""

    def __init__(self, root: Dim, factor: int, offset: int) -> None:
        self.root, self.factor, self.offset = root, factor, offset
        self.min = self.fn(root.min)
        self.max = INFINITE if root.max >= INFINITE else self.fn(root.max)
        times = "" if factor == 1 else f"{factor}*"
        added = "" if not offset else f" {'+' if offset > 0 else '-'} {abs(offset)}"
        self.__name__ = f"{times}{root.__name__}{added}"

    def __repr__(self) -> str:
        return self.__name__


def _check_number(dim: Dim, value: Any, verb: str, preposition: str) -> None:
    if not isinstance(value, int):
        raise NotImplementedError(
            f"Attempted to {verb} {value} {preposition} {dim.__name__}, where an integer was "
            "expected. (Only increasing linear operations with integer coefficients are supported.)"
        )


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Return several Dims with the same bounds."""
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
        """The specification for these inputs, by the names of the module's parameters."""
        bound = inspect.signature(getattr(m, "forward", m)).bind(*args, **kwargs or {})
        return {name: pytree.tree_map(lambda x: self._shapes.get(id(x), (x, None))[1], value)
                for name, value in bound.arguments.items()}


def collect_dynamic_dims(
    spec: Any, signature: inspect.Signature, args: tuple, kwargs: dict
) -> dict[int, dict]:
    """For each tensor input, by its place among the leaves: {dimension: Dim or hint}.

    `spec`: by the name of a parameter of the signature, or by position; a parameter that takes
    several arguments has the specs of all. UserError for one that does not fit.
    """
    if spec is None:
        return {}
    if isinstance(spec, ShapesCollection):
        leaves = pytree.tree_leaves((args, kwargs))
        pairs = [(i, x, spec._shapes.get(id(x), (x, None))[1]) for i, x in enumerate(leaves)]
        return {i: _list_tensor_dims(s, x, str(i)) for i, x, s in pairs if s}
    result: dict[int, dict] = {}
    place = 0
    specs = _Specs(spec, signature.bind(*args, **kwargs).arguments)
    inputs = [*enumerate(args), *kwargs.items()]
    for key, value in inputs:
        label, inner = specs.of_argument(key, signature)
        _collect(inner, value, place, result, label)
        place += len(pytree.tree_leaves(value))
    _check_names(result)
    return {i: dims for i, dims in result.items() if dims}


class _Specs:
    """The specs of a call's arguments. `bound`: the arguments by parameter."""

    def __init__(self, spec: Any, bound: dict[str, Any]) -> None:
        if isinstance(spec, (tuple, list)):
            _check_parts("", tuple(bound), spec)
            spec = dict(zip(bound, spec, strict=True))
        if set(spec) - set(bound):
            raise UserError(
                UserErrorType.INVALID_INPUT,
                f"When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg "
                f"names {list(bound)} of `inputs`, but here they are {list(spec)}."
            )
        self._spec, self._bound = spec, bound

    def of_argument(self, key: int | str, signature: inspect.Signature) -> tuple[str, Any]:
        """Return label and spec of the argument with a position or a keyword."""
        parameters = list(signature.parameters.values())
        if isinstance(key, int):
            parameter = parameters[key] if key < len(parameters) else parameters[-1]
            starred = [i for i, p in enumerate(parameters) if p.kind is p.VAR_POSITIONAL]
            if not starred or key < starred[0]:
                return f"L['{parameter.name}']", self._spec.get(parameter.name)
            name, key = parameters[starred[0]].name, key - starred[0]
        else:
            if key in signature.parameters:
                return f"L['{key}']", self._spec.get(key)
            name = next(p.name for p in parameters if p.kind is p.VAR_KEYWORD)
        several = self._spec.get(name)
        if several is None:
            return f"L['{name}'][{key!r}]", None
        _check_parts(f"[{name!r}]", self._bound[name], several)
        return f"L['{name}'][{key!r}]", \
            several.get(key) if isinstance(several, dict) else several[key]


def _check_parts(place: str, inputs: Any, specs: Any) -> None:
    """Raise UserError unless there is a spec for each input."""
    inputs_have, specs_have = (
        f"keys {list(parts)}" if isinstance(parts, dict) else f"{len(parts)} elements"
        for parts in (inputs, specs))
    if inputs_have != specs_have:
        raise UserError(
            UserErrorType.INVALID_INPUT,
            "Detected mismatch between the structure of `inputs` and `dynamic_shapes`: "
            f"`inputs{place}` has {inputs_have}, but `dynamic_shapes{place}` has {specs_have}"
        )


def _check_names(result: dict[int, dict]) -> None:
    """Raise UserError if two Dims share a name but not their definition."""
    roots: dict[str, Dim] = {}
    for dims in result.values():
        for dim in dims.values():
            if not isinstance(dim, Dim):
                continue
            root = roots.setdefault(dim.root.__name__, dim.root)
            if (root.min, root.max) != (dim.root.min, dim.root.max):
                raise UserError(
                    UserErrorType.INVALID_INPUT,
                    f"Found different definitions {root} and {dim.root} for the same symbolic "
                    f"dimension {root.__name__}!"
                )


def _collect(spec: Any, value: Any, place: int, result: dict[int, dict], label: str) -> None:
    if spec is None:
        return
    if isinstance(value, Tensor):
        result[place] = _list_tensor_dims(spec, value, label)
        return
    if type(value) not in pytree.SUPPORTED_NODES:
        return
    parts, _ = pytree.SUPPORTED_NODES[type(value)].flatten_fn(value)
    keys = list(value) if isinstance(value, dict) else range(len(parts))
    if not isinstance(spec, (dict, list, tuple)):
        spec = pytree.SUPPORTED_NODES[type(value)].flatten_fn(spec)[0]
    for key, part in zip(keys, parts, strict=True):
        inner = spec.get(key) if isinstance(spec, dict) else spec[key]
        _collect(inner, part, place, result, f"{label}[{key!r}]")
        place += len(pytree.tree_leaves(part))


def _list_tensor_dims(spec: Any, value: Tensor, label: str) -> dict[int, Any]:
    pairs = dict(spec if isinstance(spec, dict) else enumerate(spec))
    for i, d in pairs.items():
        if isinstance(d, int) and d != value.shape[i]:
            raise UserError(
                UserErrorType.CONSTRAINT_VIOLATION,
                f"Static shape constraint of {d} does not match input size of "
                f"{int(value.shape[i])}, for {label}.size()[{i}]"
            )
    return {i: d for i, d in pairs.items()
            if d is not None and not isinstance(d, int)
            and not (isinstance(d, _Hint) and d.kind == "STATIC")}
