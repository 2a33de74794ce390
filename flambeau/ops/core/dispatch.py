"""Dispatch: the straight Python function that users call for each declared operator.

Unary and binary pointwise operators are closures written out here, since small tensors live by
them. Every other operator gets a function with exactly its body's signature, written and compiled
when it is first called.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...native.foundation.generated_code import define
from ...autograd.tape import record, record_binary, record_number, record_unary, requires
from ...tensor.dtypes import BOOL, FLOAT32, FLOATING, FLOATS, FROM_NUMPY, INTEGER, as_dtype
from ...tensor.size import Size
from ...tensor.tensor import Tensor, creation, view_of, wrap
from . import source_listing
from .autocast import AUTOCAST, POLICIES, autocasting, cast_inputs
from .errors import MISSING, Overriding, check_sequence, explain, explaining
from .errors import name_in_errors, not_a_tensor
from .inplace import inplace_twin
from .out import write_out
from .number_cache import KEPT, as_number
from .legacy_argument_order import OLD_ORDERED, in_order
from ..native.pointwise import MIDDLE, large, large_with, swap_operands
from .output_layout import Layout, lay_out
from .promotion import compute_pointwise
from .registry import Kind, Operator, Promotion, publish

_new = object.__new__
_ndarray = np.ndarray
_ITERATOR = Layout.ITERATOR


def build(operator: Operator) -> Callable:
    """The public function of an operator; publishes its in-place twin."""
    if operator.kind is Kind.COMPOSITE:
        policy = POLICIES.get(operator.name)
        shown = name_in_errors(operator)
        body = _numpy_named(shown, operator.body) if operator.numpy_names else operator.body
        if operator.name.rstrip("_") in OLD_ORDERED:
            body.__signature__ = _strip_old_names(body)
        if policy is None:
            return explaining(shown, body) if operator.explains else body
        return autocasting(shown, body, policy)
    shape = [p.kind for p in operator.parameters]
    plain = operator.kind is Kind.POINTWISE and all(
        p.default is p.empty for p in operator.parameters
    )
    if plain and len(shape) == 1 and len(operator.tensor_positions) == 1:
        function = _unary(operator)
    elif plain and len(shape) == 2 and len(operator.tensor_positions) == 2:
        function = _binary(operator)
    else:
        function = _lazy(operator)
    if operator.inplace:
        twin = operator.twin = inplace_twin(operator, function)
        spaces = operator.expose
        names = [n + "_" for n in (operator.name, *operator.aliases) if "." not in n]
        publish(twin, names, spaces)
    return _name(function, operator)


def _name(function: Any, operator: Operator) -> Any:
    function.__name__ = function.__qualname__ = operator.name
    function.__doc__ = operator.doc
    function.__module__ = operator.body.__module__
    source_listing.attach(function, operator, lambda: _public_signature(operator))
    return function


def as_array(y: Any) -> np.ndarray:
    """What a body returned, as an array: NumPy makes scalars of 0-dim results."""
    return y if isinstance(y, _ndarray) else np.asarray(y)


def straight(operator: Operator) -> frozenset[np.dtype]:
    """The dtypes on which a pointwise body may run as it is: no cast, and nothing to refuse."""
    if operator.promotion is Promotion.NONE:
        return FLOATS
    refused = () if operator.refuse is None else getattr(operator.refuse, "categories", None)
    if refused is None:
        return FLOATS
    cast = (BOOL, INTEGER) if operator.promotion is Promotion.FLOATING else ()
    left_out = {FLOATING, *refused, *cast}
    return FLOATS | {n for n, d in FROM_NUMPY.items() if d.category not in left_out}


class PointwiseCall(NamedTuple):
    """What a closure of a pointwise operator computes; interception asks it by `pointwise_call`."""

    operator: Operator
    swapped: bool  # the operands arrive in reverse: `__rsub__` and its like


def pointwise_call(function: Any) -> PointwiseCall | None:
    """The operator that a function applies by itself: its own function, or one of Python's."""
    return getattr(function, "pointwise_call", None)


def _mark(function: Any, operator: Operator, swapped: bool = False) -> Callable:
    function.pointwise_call = PointwiseCall(operator, swapped)
    return function


def _unary(operator: Operator) -> Callable:
    body = operator.ufunc or operator.body
    fast = straight(operator)
    differentiable = operator.differentiable

    def function(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        try:
            a = input._array
            kind = a.dtype
            if kind is FLOAT32 or kind in fast:
                if a.size <= MIDDLE or (y := large(body, a)) is None:
                    y = body(a)
            else:
                y = compute_pointwise(operator, (input,), ())
        except RuntimeWarning:
            y = compute_pointwise(operator, (input,), ())
        except Exception as error:
            if (answer := Overriding.ask(operator, (input,))) is not MISSING:
                return answer if out is None else Overriding.into(out, answer)
            raise explain(operator, error, (input,)) from None
        if y.ndim > 1 and not a.flags.c_contiguous:
            y = lay_out(_ITERATOR, y, (a,))
        result = _new(Tensor)
        result._array = y if y.__class__ is _ndarray else as_array(y)
        result._requires_grad = result._tracked = False
        result._node = result._grad = result._counter = result._base = None
        result._stamp = creation.stamp
        if input._tracked and differentiable:
            record_unary(operator, result, input)
        return result if out is None else write_out(operator, result, out, (input,))

    return _mark(function, operator)


def _binary(operator: Operator, unknown: Any = TypeError) -> Callable:
    """The function of two tensors, or of a tensor and a number.

    `unknown`: what to do with an operand that is neither; operators of Python's own (`+`) answer
    NotImplemented.
    """
    body = operator.ufunc or operator.body
    fast, differentiable = straight(operator), operator.differentiable
    with_integer, with_number = _numbers_with(operator, fast, unknown)

    def function(input: Any, other: Any, *, out: Tensor | None = None) -> Any:
        try:
            a = input._array
            kind, cls = a.dtype, other.__class__
            if (cls is int and kind in with_integer) or (cls is float and kind in with_number):
                if (b := KEPT.get((other, kind))) is None:
                    b = as_number(other, kind)
                if a.size <= MIDDLE or (y := large(body, a, b)) is None:
                    y = body(a, b)
            else:
                b = other._array
                if kind is b.dtype and (kind is FLOAT32 or kind in fast):
                    if a.size <= MIDDLE or (y := large(body, a, b)) is None:
                        y = body(a, b)
                else:
                    y = compute_pointwise(operator, (input, other), ())
            if y.ndim > 1 and not (a.flags.c_contiguous and b.flags.c_contiguous):
                y = lay_out(_ITERATOR, y, (a, b))
        except Exception:
            if (answer := Overriding.ask(operator, (input, other))) is not MISSING:
                return answer if out is None else Overriding.into(out, answer)
            y = _binary_slow(operator, input, other, unknown)
            if y is NotImplemented:
                return y
        result = _new(Tensor)
        result._array = y if y.__class__ is _ndarray else as_array(y)
        result._requires_grad = result._tracked = False
        result._node = result._grad = result._counter = result._base = None
        result._stamp = creation.stamp
        if other.__class__ is not Tensor or input.__class__ is not Tensor:
            _record_mixed(operator, result, input, other)
        elif (input._tracked or other._tracked) and differentiable:
            record_binary(operator, result, input, other)
        return result if out is None else write_out(operator, result, out, (input, other))

    return _mark(function, operator)


def _numbers_with(
    operator: Operator, fast: frozenset[np.dtype], unknown: Any
) -> tuple[frozenset[np.dtype], frozenset[np.dtype]]:
    """The dtypes of arrays that integers, and floats, need no promotion with."""
    if unknown is not NotImplemented and "Number" not in str(operator.parameters[1].annotation):
        return frozenset(), frozenset()
    floats = fast & FLOATS
    return frozenset(d for d in fast if d.kind in "iu") | floats, floats


def _record_mixed(operator: Operator, result: Tensor, input: Any, other: Any) -> None:
    """Records a binary operator on a subclass of Tensor (a Parameter) or a Python number."""
    if not isinstance(other, Tensor) or not isinstance(input, Tensor):
        position = 0 if isinstance(input, Tensor) else 1
        tensor = other if position else input
        if isinstance(tensor, Tensor) and tensor._tracked and operator.differentiable:
            record_number(operator, result, (input, other), position)
    elif (input._tracked or other._tracked) and operator.differentiable:
        record_binary(operator, result, input, other)


def _binary_slow(operator: Operator, input: Any, other: Any, unknown: Any) -> Any:
    try:
        if isinstance(other, _ndarray) and isinstance(input, Tensor):
            other = wrap(other)
            if unknown is NotImplemented:  # NumPy's own rules for `tensor + array`
                input, other = _promote_by_numpy(input, other)
        if unknown is NotImplemented and not (
            isinstance(other, _OPERANDS) and isinstance(input, _OPERANDS)
        ):
            return NotImplemented
        if unknown is not NotImplemented:
            _check_numbers(operator, input, other)
        y = compute_pointwise(operator, (input, other), ())
        arrays = [getattr(x, "_array", x) for x in (input, other)]
        return lay_out(_ITERATOR, y, arrays) if y.ndim > 1 else y
    except Exception as error:
        raise explain(operator, error, (input, other)) from None


# What Python's own operators know; other operands are asked for their reflected operator.
_OPERANDS = (Tensor, bool, int, float, complex, np.generic, np.ndarray)


def _promote_by_numpy(input: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Both operands in the dtype that NumPy gives them: of float32 and int64 that is float64."""
    kinds = input._array.dtype, other._array.dtype
    if kinds[0] == kinds[1] or "V" in (kinds[0].kind, kinds[1].kind):
        return input, other
    common = FROM_NUMPY.get(np.result_type(*kinds))
    return (input, other) if common is None else (input.to(common), other.to(common))


# PyTorch wraps numbers for these even where both operands are.
_OF_NUMBERS = ("_add", "_sub", "mul", "_div", "floor_divide", "_div_floor", "_div_trunc")


def _check_numbers(operator: Operator, *operands: Any) -> None:
    """TypeError for a number where the operator takes none, or where both are numbers."""
    only = all(not isinstance(x, Tensor) for x in operands) and operator.name not in _OF_NUMBERS
    for i, (x, parameter) in enumerate(zip(operands, operator.parameters, strict=True)):
        if not isinstance(x, Tensor) and (only or "Number" not in str(parameter.annotation)):
            raise TypeError(
                f"{operator.name.lstrip('_')}(): argument '{parameter.name}' (position {i + 1}) "
                f"must be Tensor, not {type(x).__name__}"
            )


def reflect(operator: Operator) -> Callable:
    """`other op input`, for Python's __radd__ and its like: the operands arrive swapped."""
    body = operator.ufunc or operator.body
    with_number = FLOATS
    with_integer = frozenset(d for d in straight(operator) if d.kind in "iu") | with_number
    forward = _binary(operator, NotImplemented)
    turned = swap_operands(body)

    def function(self: Tensor, other: Any) -> Any:
        a = self._array
        kind = a.dtype
        cls = other.__class__
        if not (kind in with_integer if cls is int else cls is float and kind in with_number):
            return forward(other, self)
        b = KEPT.get((other, kind))
        if b is None:
            try:
                b = as_number(other, kind)
            except OverflowError:
                return forward(other, self)
        try:
            if a.size <= MIDDLE or (y := large(turned, a, b)) is None:
                y = body(b, a)
        except RuntimeWarning:
            return forward(other, self)
        if y.ndim > 1 and not a.flags.c_contiguous:
            y = lay_out(_ITERATOR, y, (b, a))
        result = _new(Tensor)
        result._array = y if y.__class__ is _ndarray else as_array(y)
        result._requires_grad = result._tracked = False
        result._node = result._grad = result._counter = result._base = None
        result._stamp = creation.stamp
        if self._tracked and operator.differentiable:
            record_number(operator, result, (other, self), 1)
        return result

    return _name(_mark(function, operator, swapped=True), operator)


def python_operator(operator: Operator) -> Callable:
    """`input op other`, answering NotImplemented to operands it does not know."""
    return _name(_binary(operator, NotImplemented), operator)


# ------------------------------------------------------------- functions written on first call


def _lazy(operator: Operator) -> Callable:
    """A function that becomes the operator's own, code and defaults, at its first call."""
    names: dict[str, Any] = {"__builtins__": __builtins__}

    def become(args: tuple, kwargs: dict) -> Any:
        source, result = write_function(operator)
        names.update(result.__globals__)
        function.__code__ = result.__code__
        function.__defaults__, function.__kwdefaults__ = result.__defaults__, result.__kwdefaults__
        operator.source = source
        return function(*args, **kwargs)

    names["become"] = become
    template = _stub.__code__
    function = types.FunctionType(template, names, operator.name)
    return function


def _stub(*args: Any, **kwargs: Any) -> Any:
    return become(args, kwargs)  # type: ignore[name-defined]  # noqa: F821


def _public_signature(operator: Operator) -> inspect.Signature:
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in operator.parameters]
    if operator.kind is not Kind.VIEW and not any(p.name == "out" for p in parameters):
        out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
        at = len(parameters)
        if parameters and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD:
            at -= 1
        parameters.insert(at, out)
    return inspect.Signature(parameters)


def _strip_old_names(body: Callable) -> inspect.Signature:
    """A body's signature without the parameter that takes what the old order has too many."""
    whole = inspect.signature(body)
    rest = [p for p in whole.parameters.values() if p.kind is not p.VAR_POSITIONAL]
    return whole.replace(parameters=rest)


# NumPy's names for two parameters, which PyTorch takes too.
_ALIASES = {"dim": "axis", "keepdim": "keepdims"}


def _numpy_named(name: str, body: Callable) -> Callable:
    """A composite that takes its parameters by NumPy's names too."""
    known = inspect.signature(body).parameters
    aliases = [(name, alias) for name, alias in _ALIASES.items() if name in known]

    @functools.wraps(body)
    def function(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            if kwargs.get("dtype").__class__ is type:
                kwargs["dtype"] = as_dtype(kwargs["dtype"])
            for parameter, alias in aliases:
                if alias in kwargs and parameter not in kwargs:
                    kwargs[parameter] = kwargs.pop(alias)
        try:
            return body(*args, **kwargs)
        except AttributeError as error:
            raise not_a_tensor(error, name, body, args, kwargs) from None

    return function


# Operators of any number of axes that must be given one, if only an empty list.
_NEEDING_AXES = frozenset(("flip",))


class _Writer:
    """Writes an operator's function as Python source."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.names: dict[str, Any] = {}
        self.lines: list[str] = []
        self.heads: list[str] = []

    def head(self) -> str:
        """The parameters, as they stand in the `def` line."""
        parts, starred = [], False
        for i, p in enumerate(self.operator.parameters):
            if p.kind is p.VAR_POSITIONAL:
                parts.append(f"*{p.name}_")
                self.names[f"default_{i}"] = None
                self.heads.append(f"{p.name}=default_{i}")
                starred = True
                continue
            text = p.name
            if p.default is not p.empty:
                self.names[f"default_{i}"] = p.default
                text += f"=default_{i}"
            if p.kind is p.KEYWORD_ONLY and not starred:
                parts.append("*")
                starred = True
            parts.append(text)
        extra = [*self.heads]
        known = set(self.operator.names)
        for name, alias in _ALIASES.items():
            if name in known and alias not in known:
                extra.append(f"{alias}=MISSING")
                if self._required(name):
                    parts = self._with_default(parts, name)
        if self.operator.kind is not Kind.VIEW and "out" not in known:
            extra.append("out=None")
        if self.operator.name in OLD_ORDERED:
            parts[parts.index("*")] = "*old_"
        if extra and not starred:
            parts.append("*")
        return ", ".join([*parts, *extra])

    def _required(self, name: str) -> bool:
        return any(p.name == name and p.default is p.empty and p.kind is not p.VAR_POSITIONAL
                   for p in self.operator.parameters)

    def _with_default(self, parts: list[str], name: str) -> list[str]:
        at = parts.index(name)
        if any(p != "*" and "=" not in p and not p.startswith("*") for p in parts[at + 1 :]):
            return parts  # a required parameter follows: no alias for this one
        return [f"{p}=MISSING" if p == name else p for p in parts]

    def prologue(self) -> None:
        """Aliases and starred parameters become plain values."""
        known = set(self.operator.names)
        if self.operator.name in OLD_ORDERED:
            self.names["in_order"] = in_order
            self.lines += ["    if old_:", f"        return {self._in_order()}"]
        for p in self.operator.parameters:
            if p.kind is p.VAR_POSITIONAL:
                n = p.name
                if self.operator.name in _NEEDING_AXES:
                    self.lines += [
                        f"    if {n} is None and not {n}_:",
                        f"        raise TypeError('{self.operator.name}() missing 1 required "
                        f"positional arguments: \"{n}\"')",
                    ]
                self.lines += [
                    f"    if {n} is None:",
                    f"        {n} = {n}_",
                    f"    if len({n}) == 1 and {n}[0].__class__ in SEQUENCES:",
                    f"        {n} = tuple({n}[0])",
                ]
        for name, alias in _ALIASES.items():
            if name in known and alias not in known:
                self.lines += [f"    if {alias} is not MISSING:", f"        {name} = {alias}"]
        if "dtype" in known:
            self.names["as_dtype"] = as_dtype
            self.lines += ["    if dtype.__class__ is type:", "        dtype = as_dtype(dtype)"]
        if self.operator.name in POLICIES:
            self.names["policy"] = POLICIES[self.operator.name]
            self.lines += ["    if AUTOCAST.count:",
                           f"        {self.every()} = cast_inputs(policy, {self.every()})"]

    def _in_order(self) -> str:
        """The call again, of the function that users call: a capture may be looking at it."""
        operator = self.operator
        first = [p.name for p in operator.parameters if p.kind is not p.KEYWORD_ONLY]
        named = [p.name for p in operator.parameters if p.kind is p.KEYWORD_ONLY]
        options = ", ".join(f"{n!r}: {n}" for n in [*named, "out"])
        return (
            f"in_order(operator.function, {operator.name!r}, ({', '.join(first)}, *old_), "
            f"{{{options}}})"
        )

    def arrays(self) -> list[str]:
        """The body's arguments: arrays for tensors, the rest as it came."""
        result = []
        for i, p in enumerate(self.operator.parameters):
            note = str(p.annotation)
            if i in self.operator.sequence_positions:
                self.lines += [f"    if {p.name}.__class__ not in SEQUENCES:",
                               f"        check_sequence(operator, {i}, {p.name})"]
                result.append(f"[v._array for v in {p.name}]" if "None" not in note
                             else f"[None if v is None else v._array for v in {p.name}]")
            elif i not in self.operator.tensor_positions:
                result.append(p.name)
            elif "Number" in note:
                result.append(f"({p.name}._array if isinstance({p.name}, Tensor) else {p.name})")
            elif "None" in note:
                result.append(f"(None if {p.name} is None else {p.name}._array)")
            else:
                result.append(f"{p.name}._array")
        return [f"*{a}" if p.kind is p.VAR_POSITIONAL else
                f"{p.name}={a}" if p.kind is p.KEYWORD_ONLY else a
                for a, p in zip(result, self.operator.parameters, strict=True)]

    def pointwise(self) -> list[str]:
        """The computation: straight on arrays of one plain floating dtype, else with promotion."""
        operator = self.operator
        tensors = "".join(f"{n}, " for n in operator.tensor_names)
        rest = [p for p in operator.parameters if p.name not in operator.tensor_names]
        plain = "".join(f"{p.name}, " for p in rest if p.kind is not p.KEYWORD_ONLY)
        named = [p.name for p in rest if p.kind is p.KEYWORD_ONLY]
        options = ", ".join(f"{n!r}: {n}" for n in named)
        general = f"y = compute_pointwise(operator, ({tensors}), ({plain}), {{{options}}})"
        arrays = [f"a{i}_" for i in operator.tensor_positions]
        notes = [str(operator.parameters[i].annotation) for i in operator.tensor_positions]
        supplied = f"{', '.join(arrays)}, {plain}" + "".join(f"{n}={n}, " for n in named)
        windows = map(self._window, operator.tensor_names, notes)
        lines = [f"        {a} = {w}" for a, w in zip(arrays, windows, strict=True)]
        if operator.promotion is Promotion.NONE:
            return [*lines, f"        y = body({supplied})"]
        if "Number" in notes[0] or "None" in notes[0]:
            return [f"        {general}"]
        same = "".join(f" and {self._meets(a, note)}" for a, note in
                       zip(arrays[1:], notes[1:], strict=True))
        return [
            *lines,
            f"        kind_ = {arrays[0]}.dtype",
            f"        if kind_ in FAST{same}:",
            f"            if {arrays[0]}.size <= MIDDLE or (y := large_with(body, "
            f"({', '.join(arrays)},), ({plain}), {{{options}}})) is None:",
            f"                y = body({supplied})",
            "        else:",
            f"            {general}",
        ]

    @staticmethod
    def _window(name: str, note: str) -> str:
        """What stands for a parameter of a pointwise body: a tensor's array, or what it is."""
        if "Number" in note or "None" in note:
            return f"{name}._array if isinstance({name}, Tensor) else {name}"
        return f"{name}._array"

    @staticmethod
    def _meets(array: str, note: str) -> str:
        """The test that a further operand needs no cast to the first one's floating dtype."""
        tests = [f"{array} is None"] if "None" in note else []
        if "Number" in note:
            tests += [f"{array}.__class__ is float", f"{array}.__class__ is int"]
        if not tests:
            return f"kind_ is {array}.dtype"
        return f"({' or '.join(tests)} or kind_ is {array}.dtype)"

    def every(self) -> str:
        """All the parameters, as the tuple that the tape sees."""
        return "(" + "".join(f"{n}, " for n in self.operator.names) + ")"

    def tracked(self) -> str:
        """The test for whether the tape wants to know: of a view, whether it requires grad now."""
        tests = []
        for i in self.operator.tensor_positions:
            p = self.operator.parameters[i]
            note = str(p.annotation)
            wanted = f"{p.name}._tracked and ({p.name}._requires_grad or requires({p.name}))"
            if i in self.operator.sequence_positions:
                tests.append(f"any(v is not None and v._tracked for v in {p.name})")
            elif "Number" in note:
                tests.append(f"(isinstance({p.name}, Tensor) and {wanted})")
            elif "None" in note:
                tests.append(f"({p.name} is not None and {wanted})")
            else:
                tests.append(f"({wanted})")
        return " or ".join(tests) or "False"

    def write(self) -> str:
        operator = self.operator
        head = self.head()
        self.prologue()
        compute = f"        y = body({', '.join(self.arrays())})"
        body = [
            "    try:",
            *(self.pointwise() if operator.kind is Kind.POINTWISE else [compute]),
            "    except RuntimeWarning:",  # of NumPy's, made an error by the user's filters
            "        with errstate(all='ignore'):",
            f"    {compute}",
            "    except Exception as error:",
            f"        if (answer := Overriding.ask(operator, {self.every()})) is not MISSING:",
            f"            return {self._answer()}",
            f"        raise explained(operator, error, {self.every()}) from None",
            "    if y.__class__ is ndarray:",
            *self._one_laid_out(),
            *self._inline_wrap(),
            "    elif y.__class__ is tuple or y.__class__ is list:",
            *self._all_laid_out(),
            f"        made = several(operator, y, {self._source()})",
            "    else:",
            f"        made = {self._wrap()}",
        ]
        if operator.differentiable and operator.tensor_positions:
            body += [f"    if {self.tracked()}:",
                     f"        record(operator, made, {self.every()})"]
        if operator.kind is Kind.VIEW or "out" in operator.names:
            body.append(f"    return {self._result()}")
        else:
            body += ["    if out is not None:",
                     f"        return write_out(operator, {self._result()}, out, {self.every()})",
                     f"    return {self._result()}"]
        return "\n".join([f"def {operator.name}({head}):", *self.lines, *body, ""])

    def _answer(self) -> str:
        """What a class gave for the call, in `out` where there is one."""
        if self.operator.kind is Kind.VIEW or "out" in self.operator.names:
            return "answer"
        return "answer if out is None else Overriding.into(out, answer)"

    def _one_laid_out(self) -> list[str]:
        """Gives the result the strides of the operator's rule."""
        layout = self.operator.layout
        if layout is Layout.FREE:
            return []
        if layout is Layout.CONTIGUOUS:
            test = "not y.flags.c_contiguous"
        elif layout is Layout.ITERATOR:
            test = f"y.ndim > 1 and not ({self._row_major()})"
        else:
            test = "y.ndim > 1"
        return [f"        if {test}:", f"            y = laid_out(LAYOUT, y, ({self._windows()},))"]

    def _all_laid_out(self) -> list[str]:
        if self.operator.layout is Layout.FREE:
            return []
        return [f"        y = [laid_out(LAYOUT, v, ({self._windows()},)) for v in y]"]

    def _row_major(self) -> str:
        """The test that all operands lie in row-major order."""
        tests = []
        for i in self.operator.tensor_positions:
            name, note = self.operator.names[i], str(self.operator.parameters[i].annotation)
            if i in self.operator.sequence_positions:
                tests.append(f"all([v is None or v._array.flags.c_contiguous for v in {name}])")
            elif "Number" in note or "None" in note:
                tests.append(
                    f"(not isinstance({name}, Tensor) or {name}._array.flags.c_contiguous)")
            else:
                tests.append(f"{name}._array.flags.c_contiguous")
        return " and ".join(tests) or "True"

    def _windows(self) -> str:
        """The arrays of all tensor parameters, and the numbers that stand in their place."""
        result = []
        for i in self.operator.tensor_positions:
            name, note = self.operator.names[i], str(self.operator.parameters[i].annotation)
            if i in self.operator.sequence_positions:
                result.append(f"[None if v is None else v._array for v in {name}]")
            else:
                result.append(self._window(name, note))
        return ", ".join(result)

    def _inline_wrap(self) -> list[str]:
        if self.operator.kind is Kind.VIEW:
            return [f"        made = {self._wrap()}"]
        return [
            "        made = new(Tensor)",
            "        made._array = y",
            "        made._requires_grad = made._tracked = False",
            "        made._node = made._grad = made._counter = made._base = None",
            "        made._stamp = creation.stamp",
        ]

    def _source(self) -> str:
        names = self.operator.tensor_names
        return names[0] if names else "None"

    def _wrap(self) -> str:
        if self.operator.kind is Kind.VIEW:
            return f"view_of({self._source()}, y)"
        return "wrap(y)"

    def _result(self) -> str:
        return "made" if self.operator.result_type is None else "named(made)"


def write_function(operator: Operator) -> tuple[str, Callable]:
    """The source of an operator's function, and the function."""
    writer = _Writer(operator)
    source = writer.write()
    result_type = operator.result_type
    names = {
        **writer.names,
        "operator": operator, "body": operator.body, "compute_pointwise": compute_pointwise,
        "explained": explain, "several": several, "view_of": view_of, "wrap": wrap,
        "record": record, "requires": requires, "write_out": write_out, "Tensor": Tensor,
        "MISSING": MISSING, "Overriding": Overriding,
        "SEQUENCES": (tuple, list, Size), "new": _new, "ndarray": _ndarray,
        "errstate": np.errstate, "AUTOCAST": AUTOCAST, "cast_inputs": cast_inputs,
        "creation": creation, "FAST": FLOATS, "__name__": "flambeau.ops.core.dispatch",
        "MIDDLE": MIDDLE, "large_with": large_with, "laid_out": lay_out,
        "check_sequence": check_sequence,
        "LAYOUT": operator.layout,
        "named": None if result_type is None else lambda result: result_type(*result),
    }
    define(source, f"<flambeau operator {operator.name}>", names)
    return source, names[operator.name]


def several(operator: Operator, arrays: Any, source: Any) -> tuple[Tensor | None, ...]:
    """The tensors of an operator with several outputs."""
    if operator.kind is Kind.VIEW:
        return tuple([view_of(source, y) for y in arrays])
    return tuple([None if y is None else wrap(y) for y in arrays])  # sooner than a generator

