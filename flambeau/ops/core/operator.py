"""Operators, the table of all operators, and the table of public names.

`registry.py` fills both. The tape reads plans and vjps from operators, dispatch their signatures.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from enum import Enum, auto
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ...autograd.errors.missing_derivatives import raise_missing, raise_unlisted
from ...autograd.node import Node
from ...autograd.saved.plan import ATTRIBUTE, DTYPE, FORMAT, INPUT, NEEDS, OUTPUT, SHAPE, Plan
from ...tensor.overlap import Overlap
from ...tensor.tensor import Tensor
from ..documentation.lazy_docstring import document, own_text
from .output_layout import Layout
from .value_rules import ValueRule, make_label_rule

if TYPE_CHECKING:
    from .autocast import Policy

Array = np.ndarray
# An attribute that holds index arrays: backward frees it, as PyTorch frees saved index tensors.
Positions = tuple
Number = bool | int | float | complex


class Kind(Enum):
    """How an operator treats its inputs."""

    POINTWISE = auto()  # a result element depends on one element of each input, with broadcasting
    VIEW = auto()  # the same memory under another shape or strides
    OPAQUE = auto()  # has its own shape rule: reductions, matmul, sorting, ...
    COMPOSITE = auto()  # composed of other operators, on tensors


class Promotion(Enum):
    """The dtype in which a pointwise operator computes."""

    COMMON = auto()  # the promoted dtype of its inputs
    FLOATING = auto()  # the same, with integers promoted to the default dtype
    PREDICATE = auto()  # inputs promoted, result bool
    NONE = auto()  # the body decides


_LAYOUTS = {Kind.POINTWISE: Layout.ITERATOR, Kind.OPAQUE: Layout.CONTIGUOUS}
_OVERLAPS = {Kind.POINTWISE: Overlap.SAME}

OPERATORS: dict[str, Operator] = {}
DERIVATIVES: set[CodeType] = set()  # the code of all vjps
# Public names, by namespace: "torch", "Tensor", "nn.functional", "linalg", "special", "fft".
PUBLIC: dict[str, dict[str, Any]] = {}


class Operator:
    """An operator: its declaration, plus what the tape and the tests derive from it."""

    vjps: dict[str, Callable]  # by input
    plans: dict[int, Plan]  # by the inputs that require grad
    joint: Callable | None = None  # the vjp of all inputs at once
    jvp: Callable | None = None
    value_and_jvp: Callable | None = None
    batch: Callable | None = None  # the vmap rule, unless a fact below implies it
    twin: Any  # the in-place form, if any
    source: Any  # source of the generated function

    def __init__(self, name: str, kind: Kind, body: Callable, options: dict[str, Any]) -> None:
        self.name, self.kind, self.body = name, kind, body
        self.doc = inspect.cleandoc(own_text(body))
        self.ref: Callable | None = options.pop("ref", None)
        self.samples: Any = options.pop("samples", None)
        self.promotion: Promotion = options.pop("promotion", Promotion.COMMON)
        self.refuse: Callable | None = options.pop("refuse", None)
        self.ufunc: np.ufunc | None = options.pop("ufunc", None)  # the body, on plain floats
        self.layout: Layout = options.pop("layout", _LAYOUTS.get(kind, Layout.FREE))
        self.holomorphic: bool = options.pop("holomorphic", True)
        self.differentiable: bool = options.pop("differentiable", True)
        self.inplace: bool = options.pop("inplace", kind is Kind.POINTWISE)
        # Whether the body reads bytes of bools: in views of integers not only 0 and 1.
        self.reads_bool_bytes: bool = options.pop("reads_bool_bytes", False)
        # Whether the in-place form, whose result has the input's dtype, has a derivative: zero.
        self.flat_in_place: bool = options.pop("flat_in_place", False)
        self.constant_outputs: tuple[int, ...] = options.pop("constant_outputs", ())
        # Floating inputs that must not require grad.
        self.constant_inputs: tuple[str, ...] = options.pop("constant_inputs", ())
        # Whether, without dtype=, it computes in the dtype of out=.
        self.dtype_of_out: bool = options.pop("dtype_of_out", False)
        # PyTorch's name for the operator in errors about its derivative.
        self.torch_kernel: str = options.pop("torch_kernel", name.strip("_"))
        self.result_type: Any = options.pop("result_type", None)
        self.expose: tuple[str, ...] = options.pop("expose", ("torch", "Tensor"))
        self.aliases: tuple[str, ...] = options.pop("aliases", ())
        self.second_order: bool = options.pop("second_order", True)
        self._read_facts(options)
        self.overload: Callable[..., Any] | None
        self.node_names, self.overload = _read_node_names(self, options)
        if options:
            raise TypeError(f"operator {name}: unknown options {sorted(options)}")
        self.vjps, self.plans = {}, {}
        self.pointwise = kind is Kind.POINTWISE
        self.function: Callable = body
        self.kernels: dict[str, Callable] = {}
        if kind is not Kind.COMPOSITE:
            # The second one returns the type of a call's node; None if all have the first one.
            self.node_type, self.choose_node = _create_node_types(self)
            self._read_signature(body)
            self.shown_edges = tuple(map(self.names.index, self.edges)) or self.tensor_positions

    def _read_value_facts(self, options: dict[str, Any]) -> None:
        """Read which values the operator accepts, and what is known of its results' values."""
        # The parameter of class labels, which index the first input's second (or only) axis.
        self.labels: str | None = options.pop("labels", None)
        # Which values the operator accepts; None if its body raises for none or none are checked.
        self.values: ValueRule | None = options.pop("values", None)
        # The result that holds indices along the first input's axis `dim` (None: flat indices).
        self.index_output: int | None = options.pop("index_output", None)
        # When shapes depend on values: "masks" (after the first input), "always", or "" (never).
        self.value_dependent_shape: str = options.pop("value_dependent_shape", "")

    def _read_facts(self, options: dict[str, Any]) -> None:
        """Read the options that few operators set: unusual parameters, linearity, vmap rules."""
        self._read_value_facts(options)
        # Whether the list of axes is required, even if empty.
        self.requires_axes: bool = options.pop("requires_axes", False)
        # Whether a composite also accepts NumPy's `axis` and `keepdims`, as other kinds always do.
        self.numpy_names: bool = options.pop("numpy_names", False)
        # Whether a composite reads attributes of its arguments; a wrapper explains missing ones.
        self.explains: bool = options.pop("explains", False)
        # PyTorch's kernel name, for errors that reject 8-bit floats; "" if it accepts them.
        self.kernel: str = options.pop("kernel", "")
        self.autocast: Policy | None = options.pop("autocast", None)  # of floating inputs
        self.writes: tuple[str, ...] = options.pop("writes", ())  # parameters that the body writes
        # Inputs in which the operator is linear: a sum of terms, each a product of inputs and
        # linear in each one while the others are fixed, as in "input * weight + bias".
        self.linear_in: str = options.pop("linear_in", "")
        # Whether the results' extents are the same function of the operands' extents whenever those
        # exceed one, as for pointwise operators and views. Programs for growing shapes rely on it.
        self.extents_follow: bool = options.pop(
            "extents_follow", self.kind in (Kind.POINTWISE, Kind.VIEW))
        # For vmap (`interception/batching_rules.py`): whether leading axes are independent; 2: of
        self.leading: int = options.pop("leading", False)  # matrices, else of rows or elements.
        # Inputs whose first axis already holds independent examples, such as images or sequences.
        self.examples: tuple[str, ...] = options.pop("examples", ())
        # Which operands may overlap the tensor given as out=.
        self.overlap: Overlap = options.pop("overlap", _OVERLAPS.get(self.kind, Overlap.ANY))
        # Whether settings are rounded to half precision, where the first input has it.
        self.rounds_settings: bool = options.pop("rounds_settings", False)
        # Whether, without grad, a number acts like a tensor of no axes (some ufuncs always do so).
        self.takes_computed_numbers: bool = options.pop("takes_computed_numbers", False)
        # A quotient of half precision in steps that are rounded, unless the divisor is a number.
        self.steps_of_halves: Callable | None = options.pop("steps_of_halves", None)
        self.reduces: bool = options.pop("reduces", False)  # a loss: 0 none, 1 mean, 2 sum
        # The order of a node's edges if it is not the parameters'.
        self.edges: tuple[str, ...] = options.pop("edges", ())

    def _read_signature(self, body: Callable) -> None:
        self.parameters = parameters = list(inspect.signature(body).parameters.values())
        self.names = tuple(p.name for p in parameters)
        for name in {*self.writes, *([] if self.labels is None else [self.labels])}:
            if name not in self.names:
                raise TypeError(f"operator {self.name} has no parameter {name}")
        if self.labels is not None:
            self.values = make_label_rule(self.names, self.labels)
        self.written_positions = tuple(self.names.index(name) for name in self.writes)
        notes = [str(p.annotation) for p in parameters]
        self.tensor_positions = tuple(i for i, n in enumerate(notes) if "Array" in n)
        self.position_attributes = tuple(i for i, n in enumerate(notes) if "Positions" in n)
        self.sequence_positions = tuple(i for i, n in enumerate(notes) if "Sequence[Array" in n)
        self.optional_positions = tuple(
            i for i in self.tensor_positions
            if i not in self.sequence_positions and ("None" in notes[i] or "Number" in notes[i]))
        self.has_sequence = bool(self.sequence_positions)
        single = len(self.tensor_positions) == 1 and not self.has_sequence
        optional = single and "|" in notes[self.tensor_positions[0]]
        self.single = self.tensor_positions[0] if single and not optional else None
        self.tensor_names = tuple(self.names[i] for i in self.tensor_positions)

    # ---------------------------------------------------------------------- derivatives

    def plan(self, mask: int) -> Plan:
        """Return the plan for the inputs whose bits (parameter positions) are set in `mask`."""
        positions = [i for i in self.tensor_positions if mask >> i & 1]
        sources: list[tuple[int, int]] = []
        entries = []
        if self.joint is not None:
            entries.append((self.joint, self._indices(self.joint, sources)))
        else:
            positions = [i for i in positions if self.differentiable or self.flat_in_place]
            for i in positions:
                missing = _flat_vjp if self.flat_in_place else \
                    _create_missing_vjp(self, self.names[i])
                vjp = self.vjps.get(self.names[i], missing)
                entries.append((vjp, self._indices(vjp, sources)))
        actual: Plan = Plan(self.node_type, sources, entries, positions, self.joint is not None,
                            self.sequence_positions, self.optional_positions)
        actual.choose_node = self.choose_node
        actual.frees = any((ATTRIBUTE, i) in sources for i in self.position_attributes)
        self.plans[mask] = actual
        return actual

    def _indices(self, vjp: Callable, sources: list[tuple[int, int]]) -> tuple[int, ...]:
        result = []
        for name in list(inspect.signature(vjp).parameters)[1:]:
            source = self.source_of(name)
            if source not in sources:
                sources.append(source)
            result.append(sources.index(source))
        return tuple(result)

    def source_of(self, name: str) -> tuple[int, int]:
        """Return where a vjp's parameter of this name gets its value."""
        if name in ("y", "ys"):
            return OUTPUT, 0
        if name == "needs":
            return NEEDS, 0
        if name in self.names:
            position = self.names.index(name)
            return (INPUT if position in self.tensor_positions else ATTRIBUTE), position
        for ending, kind in (("_shape", SHAPE), ("_dtype", DTYPE), ("_format", FORMAT)):
            if name.endswith(ending) and name.removesuffix(ending) in self.tensor_names:
                return kind, self.names.index(name.removesuffix(ending))
        raise TypeError(
            f"operator {self.name}: its vjp asks for '{name}'; known are g, y, ys, needs, "
            f"{', '.join(self.names)}, and <input>_shape, <input>_dtype or <input>_format"
        )

    def restores(self, args: tuple, y: Tensor) -> list | None:
        """Return (shape, dtype) for parameters whose cotangents must be summed or cast, or None."""
        shape, dtype = y._array.shape, y._array.dtype
        pointwise = self.kind is Kind.POINTWISE
        result: list[Any] = [None] * len(args)
        for i in self.tensor_positions:
            value = args[i]
            if value.__class__ in (tuple, list):
                result[i] = [_find_restoration(v, shape, dtype, pointwise) for v in value]
                result[i] = result[i] if any(result[i]) else None
            else:
                result[i] = _find_restoration(value, shape, dtype, pointwise)
        if not any(result):
            return None
        if pointwise:  # a vjp of mixed dtypes can promote the cotangent of every operand
            for i in self.tensor_positions:
                if result[i] is None and args[i].__class__ is Tensor:
                    result[i] = args[i]._array.shape, args[i]._array.dtype
        return result

    def declare_vjp(self, target: Any) -> Callable:
        """Declare `@op.vjp` (the only tensor input or all inputs) or `@op.vjp("name")` (one)."""
        if isinstance(target, str):
            names = target.split()

            def decorate(vjp: Callable) -> Callable:
                for name in names:
                    self._add(name, vjp)
                return vjp

            return decorate
        if len(self.tensor_positions) == 1:
            self._add(self.tensor_names[0], target)
        else:
            if self.joint is not None:
                raise TypeError(f"operator {self.name}: derivative declared twice")
            self.joint = target
            self._indices(target, [])
            DERIVATIVES.add(target.__code__)
        return target

    def declare_jvp(self, rule: Callable) -> Callable:
        """Declare `@op.jvp`: the result's tangent, a tuple for several results, None for zeros.

        The rule takes `<input>_t`, that input's tangent or None, and the same names as a vjp.
        """
        if self.jvp is not None:
            raise TypeError(f"operator {self.name}: jvp declared twice")
        for name in inspect.signature(rule).parameters:
            if name.removesuffix("_t") not in self.tensor_names:
                self.source_of(name)
        self.jvp = rule
        return rule

    def declare_value_and_jvp(self, rule: Callable) -> Callable:
        """Declare `@op.value_and_jvp`: result and tangent in one pass over plain arrays, or None.

        The rule takes arrays: `<input>_t`, the input's tangent or None, and parameters by name. It
        only saves time: the body and `@op.jvp` compute the same.
        """
        self.value_and_jvp = rule
        return rule

    def declare_batch(self, rule: Callable) -> Callable:
        """Declare `@op.batch`, which computes all examples of a vmap at once. The rule takes the
        batch and the operator's arguments (tensors of one example) and returns all results, batch
        axis first."""
        if self.batch is not None:
            raise TypeError(f"operator {self.name}: batch declared twice")
        self.batch = rule
        return rule

    def _add(self, name: str, vjp: Callable) -> None:
        if name in self.vjps or name not in self.tensor_names:
            raise TypeError(f"operator {self.name}: vjp for '{name}' twice, or no such input")
        self._indices(vjp, [])
        self.vjps[name] = vjp
        DERIVATIVES.add(vjp.__code__)


def _find_restoration(value: Any, shape: tuple, dtype: np.dtype, pointwise: bool) -> tuple | None:
    """Return the shape and dtype to which an operand's cotangent must be reduced, or None."""
    if not isinstance(value, Tensor):
        return None
    array = value._array
    if (pointwise and array.shape != shape) or array.dtype != dtype:
        return (array.shape, array.dtype)
    return None


def _flat_vjp(g: Any) -> Any:
    return g.new_zeros(g.shape)


def _create_missing_vjp(operator: Operator, name: str) -> Callable:
    """Return a vjp that raises, for an input without one. RuntimeError at once if the input must be
    constant."""
    if name in operator.constant_inputs:
        raise RuntimeError(
            f"The function '{operator.torch_kernel}' is not differentiable with respect to "
            f"argument '{name}'. This input cannot have requires_grad True.")

    def vjp(g: Any) -> NoReturn:
        if operator.node_type.__name__ == "NotImplemented":
            raise_unlisted(operator.torch_kernel)
        raise_missing(operator.torch_kernel)

    return vjp


def _read_node_names(
    operator: Operator, options: dict[str, Any]
) -> tuple[dict[Any, str], Callable[..., Any] | None]:
    """Read PyTorch's name for the node, or names, where its overloads have nodes of their own.

    `overload` returns the key of a call's name, or its position if the names are a tuple, given all
    parameters in order. A composite has a name if PyTorch differentiates it as a whole.
    """
    camel = _convert_to_camel(operator.name) + "Backward0"
    node = options.pop("node", () if operator.kind is Kind.COMPOSITE else camel)
    names = (node,) if isinstance(node, str) else node
    keyed = names if isinstance(names, dict) else dict(enumerate(names))
    return keyed, options.pop("overload", None)


def _create_node_types(
    operator: Operator,
) -> tuple[type[Node], Callable[[tuple], type[Node]] | None]:
    attributes = {"operator": operator, "__slots__": (), "__module__": "builtins"}
    kinds = {key: type(name, (Node,), attributes) for key, name in operator.node_names.items()}
    overload, first = operator.overload, next(iter(kinds.values()))
    return first, None if overload is None else lambda args: kinds[overload(*args)]


def _convert_to_camel(name: str) -> str:
    """Return a name as PyTorch's nodes spell it: log1p is Log1P, deg2rad Deg2Rad."""
    words = re.split("_+|(?<=[0-9])(?=[a-z])", name.strip("_"))
    return "".join(word.capitalize() for word in words)


def publish(function: Any, names: Sequence[str], namespaces: Sequence[str]) -> None:
    """Publish a function under its names; names ending in '_' are in-place twins."""
    own_name = getattr(function, "__name__", "")
    if own_name.startswith("_") and own_name not in names and isinstance(function, FunctionType):
        function.__name__ = function.__qualname__ = names[0].rpartition(".")[2]
    if isinstance(function, FunctionType):
        document(function, names, namespaces)
    for space in namespaces:
        for name in names:
            if "." in name:  # "special.expit": a name in a namespace
                home, short = name.rsplit(".", 1)
                PUBLIC.setdefault(home, {})[short] = function
                continue
            PUBLIC.setdefault(space, {})[name] = function
            if space == "Tensor":
                setattr(Tensor, name, function)
