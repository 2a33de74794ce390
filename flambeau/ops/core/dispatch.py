"""Dispatch: the specialized Python function that users call for each declared operator.

Unary and binary pointwise operators are closures written out here, because small tensors depend on
their speed. Every other operator gets a function with exactly its body's signature, generated and
compiled on its first call.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...autograd.node import name_node
from ...autograd.tape import record_binary, record_number, record_unary
from ...native.target.eager_costs import MAX_NUMPY_COSTLY_ELEMENTS
from ...tensor.dtypes import BOOL, FLOAT32, FLOATING, FLOATS, FROM_NUMPY, INTEGER, as_dtype
from ...tensor.narrow_dtypes import EIGHT_BIT, NARROW
from ...tensor.tensor import Tensor, creation, wrap
from ..documentation import source_listing
from ..native.pointwise import try_kernel, swap_operands
from .arguments.checks import check_call, list_plain_parameters, name_in_errors
from .arguments.legacy_order import OLD_ORDERED
from .autocast import make_autocasting
from .errors import (
    MISSING, NUMPY_NAMES, Overriding, answer_failed, build_overload_error, build_tensor_error,
    explain, note_outermost, wrap_with_explanation,
)
from .function_writer import write_function
from .inplace import OPERANDS, inplace_twin
from .operator import Kind, Operator, Promotion, publish
from .out import write_out
from .output_layout import Layout, lay_out
from .promotion import compute_pointwise
from .scalar_conversion import CACHED_NUMBERS, cache_number

_new = object.__new__
_ndarray = np.ndarray
_ITERATOR = Layout.ITERATOR
PASSES_NUMBERS: set[types.CodeType] = set()  # code that hands all numbers on as they are


def build(operator: Operator) -> Callable:
    """Build the public function of an operator, and publish its in-place twin."""
    if operator.kind is Kind.COMPOSITE:
        shown = name_in_errors(operator)
        body: Any = _accept_numpy_names(
            shown, operator.body
        ) if operator.numpy_names else operator.body
        if operator.name.rstrip("_") in OLD_ORDERED:
            body.__signature__ = _strip_old_names(body)
        if operator.autocast is not None:
            body = make_autocasting(shown, body, operator.autocast)
        elif operator.explains:
            body = wrap_with_explanation(shown, body)
            PASSES_NUMBERS.add(body.__code__)
        return _name_nodes(body, operator) if operator.node_names else body
    shape = [p.kind for p in operator.parameters]
    plain = operator.kind is Kind.POINTWISE and all(
        p.default is p.empty for p in operator.parameters
    )
    if plain and len(shape) == 1 and len(operator.tensor_positions) == 1:
        function = _create_unary(operator)
    elif plain and len(shape) == 2 and len(operator.tensor_positions) == 2:
        function = _create_binary(operator)
    else:
        function = _create_lazy(operator)
    if operator.inplace:
        twin = operator.twin = inplace_twin(operator, function)
        spaces = operator.expose
        names = [n + "_" for n in (operator.name, *operator.aliases) if "." not in n]
        publish(twin, names, spaces)
    return _copy_name(function, operator)


def _name_nodes(function: Callable[..., Any], operator: Operator) -> Callable[..., Any]:
    """Wrap a composite that PyTorch differentiates as a whole, to name its results' nodes so. The
    nodes before them are those of the operators that compute the results here."""
    names = operator.node_names
    overload = operator.overload or (lambda *args, **kwargs: 0)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        for y in result if isinstance(result, (tuple, list)) else (result,):
            if not isinstance(y, Tensor):
                break  # an overriding class has answered
            if y._node is not None and not _is_argument(y, args):
                name_node(y, names[overload(*args, **kwargs)])
        return result

    note_outermost(function, call)
    wrapper: Any = call
    PASSES_NUMBERS.add(wrapper.__code__)
    return call


def _is_argument(y: Tensor, args: tuple[Any, ...]) -> bool:
    """Whether a composite returned one of its arguments, or what has the same history."""
    return y._node in [x._node for x in args if isinstance(x, Tensor)]


def _copy_name(function: Any, operator: Operator) -> Any:
    function.__name__ = function.__qualname__ = operator.name
    function.__doc__ = operator.doc
    function.__module__ = operator.body.__module__
    source_listing.attach(function, operator, lambda: _create_public_signature(operator))
    return function


def as_array(y: Any) -> np.ndarray:
    """Return a body's result as an array; NumPy returns scalars for 0-dim results."""
    return y if isinstance(y, _ndarray) else np.asarray(y)


def list_straight_dtypes(operator: Operator) -> frozenset[np.dtype]:
    """Return the dtypes on which a pointwise body runs without a cast and without being refused."""
    if operator.promotion is Promotion.NONE:
        return FLOATS
    refused = () if operator.refuse is None else getattr(operator.refuse, "categories", None)
    if refused is None:
        return FLOATS
    cast = (BOOL, INTEGER) if operator.promotion is Promotion.FLOATING else ()
    left_out = {FLOATING, *refused, *cast, *((BOOL,) if operator.reads_bool_bytes else ())}
    return FLOATS | {n for n, d in FROM_NUMPY.items()
                     if d.category not in left_out and n not in NARROW and n not in EIGHT_BIT}


class PointwiseCall(NamedTuple):
    """The operator behind a pointwise closure, for interception by `find_pointwise_operator`."""

    operator: Operator
    swapped: bool  # the operands are swapped, as in `__rsub__`


def find_pointwise_operator(function: Any) -> PointwiseCall | None:
    """Return the operator behind a function: an operator's own function or a Python operator."""
    return getattr(function, "pointwise_call", None)


def _mark(function: Any, operator: Operator, swapped: bool = False) -> Callable:
    function.pointwise_call = PointwiseCall(operator, swapped)
    return function


def _create_unary(operator: Operator) -> Callable:
    body = operator.ufunc or operator.body
    fast, layout = list_straight_dtypes(operator), operator.layout
    differentiable = operator.differentiable

    def function(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        try:
            a = input._array
            kind = a.dtype
            if kind is FLOAT32 or kind in fast:
                if a.size <= MAX_NUMPY_COSTLY_ELEMENTS or (y := try_kernel(body, a)) is None:
                    y = body(a)
            else:
                y = compute_pointwise(operator, (input,), ())
        except (RuntimeWarning, FloatingPointError):
            y = compute_pointwise(operator, (input,), ())
        except Exception as error:
            if (answer := Overriding.ask(operator, (input,))) is not MISSING:
                return answer if out is None else Overriding.into(out, answer)
            raise explain(operator, error, (input,)) from None
        if y.ndim > 1 and not a.flags.c_contiguous:
            y = lay_out(layout, y, (a,))
        result = _new(Tensor)
        result._array = y if y.__class__ is _ndarray else as_array(y)
        result._requires_grad = result._tracked = False
        result._node = result._grad = result._counter = result._base = None
        result._stamp = creation.stamp
        if input._tracked and differentiable:
            record_unary(operator, result, input)
        return result if out is None else write_out(operator, result, out, (input,))

    return _mark(function, operator)


def _create_binary(
    operator: Operator, method: str | None = None, takes_arrays: bool = False
) -> Callable:
    """Return the function of two tensors, or of a tensor and a number.

    `method`: the name of one of Python's operators (`__add__`), which returns NotImplemented for
    an operand that is neither; "" if it swaps its operands, so that a number may come first.
    `takes_arrays`: whether NumPy arrays are operands as well.
    """
    body = operator.ufunc or operator.body
    fast, differentiable = list_straight_dtypes(operator), operator.differentiable
    with_integer, with_number = _list_number_dtypes(operator, fast, method)

    def function(input: Any, other: Any, *, out: Tensor | None = None) -> Any:
        try:
            a = input._array
            kind, cls = a.dtype, other.__class__
            if (cls is int and kind in with_integer) or (cls is float and kind in with_number):
                if (b := CACHED_NUMBERS.get((other, kind))) is None:
                    b = cache_number(other, kind)
                if a.size <= MAX_NUMPY_COSTLY_ELEMENTS or (y := try_kernel(body, a, b)) is None:
                    y = body(a, b)
            else:
                b = other._array
                if kind is b.dtype and (kind is FLOAT32 or kind in fast):
                    if a.size <= MAX_NUMPY_COSTLY_ELEMENTS or (y := try_kernel(body, a, b)) is None:
                        y = body(a, b)
                else:
                    y = compute_pointwise(operator, (input, other), ())
            if y.ndim > 1 and not (a.flags.c_contiguous and b.flags.c_contiguous):
                y = lay_out(_ITERATOR, y, (a, b))
        except Exception:
            if (answer := Overriding.ask(operator, (input, other))) is not MISSING:
                return answer if out is None else Overriding.into(out, answer)
            y = _run_binary(operator, input, other, method, takes_arrays)
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


def _list_number_dtypes(
    operator: Operator, fast: frozenset[np.dtype], method: str | None
) -> tuple[frozenset[np.dtype], frozenset[np.dtype]]:
    """Return the dtypes of arrays that need no promotion with integers, and with floats."""
    if method is None and "Number" not in str(operator.parameters[1].annotation):
        return frozenset(), frozenset()
    floats = fast & FLOATS
    return frozenset(d for d in fast if d.kind in "iu") | floats, floats


def _record_mixed(operator: Operator, result: Tensor, input: Any, other: Any) -> None:
    """Record a binary operator on a subclass of Tensor (a Parameter) or a Python number."""
    if not isinstance(other, Tensor) or not isinstance(input, Tensor):
        position = 0 if isinstance(input, Tensor) else 1
        tensor = other if position else input
        if isinstance(tensor, Tensor) and tensor._tracked and operator.differentiable:
            record_number(operator, result, (input, other), position)
    elif (input._tracked or other._tracked) and operator.differentiable:
        record_binary(operator, result, input, other)


def _run_binary(
    operator: Operator, input: Any, other: Any, method: str | None, takes_arrays: bool
) -> Any:
    if method and not isinstance(input, Tensor):
        raise TypeError(f"descriptor '{method}' for 'torch._C.TensorBase' objects doesn't apply "
                        f"to a '{type(input).__name__}' object")
    try:
        if takes_arrays and isinstance(other, _ndarray):
            other = wrap(other)
        if method is not None and not (
            isinstance(other, OPERANDS) and isinstance(input, OPERANDS)
        ):
            return NotImplemented
        if method is None:
            _check_numbers(operator, input, other)
        y = compute_pointwise(operator, (input, other), ())
        arrays = [getattr(x, "_array", x) for x in (input, other)]
        return lay_out(_ITERATOR, y, arrays) if y.ndim > 1 else y
    except Exception as error:
        raise explain(operator, error, (input, other)) from None


# Operators that PyTorch also applies to two plain numbers.
_OF_NUMBERS = ("_add", "_sub", "mul", "_div", "floor_divide", "_div_floor", "_div_trunc")


def _check_numbers(operator: Operator, *operands: Any) -> None:
    """Raise TypeError for an operand that the operator does not accept, or for two numbers."""
    only = all(not isinstance(x, Tensor) for x in operands) and operator.name not in _OF_NUMBERS
    for i, (x, parameter) in enumerate(zip(operands, operator.parameters, strict=True)):
        if isinstance(x, Tensor):
            continue
        takes_numbers = "Number" in str(parameter.annotation)
        if takes_numbers and operator.name not in _OF_NUMBERS and not isinstance(x, OPERANDS):
            raise build_overload_error(
                operator.name.lstrip("_"), [p.name for p in operator.parameters], operands)
        if only or not takes_numbers or not isinstance(x, OPERANDS):
            raise build_tensor_error(operator.name.lstrip("_"), parameter.name, i, x)


def reflect(operator: Operator, with_array: Callable | None = None) -> Callable:
    """Return `other op input` for reflected methods such as __radd__, which swap the operands.

    `with_array(input, array)`: the result if the other operand is a NumPy array.
    """
    body = operator.ufunc or operator.body
    with_number, straight = FLOATS, list_straight_dtypes(operator)
    with_integer = frozenset(d for d in straight if d.kind in "iu") | with_number
    forward = _create_binary(operator, "")
    turned = swap_operands(body)

    def function(self: Tensor, other: Any) -> Any:
        try:
            a = self._array
        except AttributeError:  # Tensor.__rpow__(2, x)
            return _reflect_number(operator, forward, self, other)
        kind = a.dtype
        cls = other.__class__
        if not (kind in with_integer if cls is int else cls is float and kind in with_number):
            if with_array is not None and isinstance(other, _ndarray):
                return with_array(self, other)
            return forward(other, self)
        b = CACHED_NUMBERS.get((other, kind))
        if b is None:
            try:
                b = cache_number(other, kind)
            except OverflowError:
                return forward(other, self)
        try:
            if a.size <= MAX_NUMPY_COSTLY_ELEMENTS or (y := try_kernel(turned, a, b)) is None:
                y = body(b, a)
        except (RuntimeWarning, FloatingPointError):
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

    return _copy_name(_mark(function, operator, swapped=True), operator)


def _reflect_number(operator: Operator, forward: Callable, number: Any, other: Any) -> Any:
    """Return what PyTorch's reflected methods do if their `self` is a plain number."""
    if operator.name == "_div":
        raise AttributeError(f"'{type(number).__name__}' object has no attribute 'reciprocal'")
    if operator.name == "_sub" or not isinstance(other, Tensor):
        return NotImplemented
    return forward(other, number)


def make_python_operator(operator: Operator, name: str, takes_arrays: bool = False) -> Callable:
    """Return Python's operator `name`, which returns NotImplemented for unknown operands.

    These include NumPy arrays unless `takes_arrays`: Python then calls the array's operator, which
    computes with NumPy.
    """
    function = _copy_name(_create_binary(operator, name, takes_arrays), operator)
    function.__name__ = function.__qualname__ = name
    return function


# ------------------------------------------------------------- functions written on first call


def _create_lazy(operator: Operator) -> Callable:
    """Return a function that replaces its code by the generated one on its first call."""
    names: dict[str, Any] = {"__builtins__": __builtins__}

    def become(args: tuple, kwargs: dict) -> Any:
        source, result = write_function(operator)
        names.update(result.__globals__)
        function.__code__ = result.__code__
        function.__defaults__, function.__kwdefaults__ = result.__defaults__, result.__kwdefaults__
        operator.source = source
        return function(*args, **kwargs)

    names["become"] = become
    template = run_unwritten.__code__
    function = types.FunctionType(template, names, operator.name)
    return function


def run_unwritten(*args: Any, **kwargs: Any) -> Any:
    return become(args, kwargs)  # type: ignore[name-defined]  # noqa: F821


def _create_public_signature(operator: Operator) -> inspect.Signature:
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in operator.parameters]
    if operator.kind is not Kind.VIEW and not any(p.name == "out" for p in parameters):
        out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
        end = len(parameters)
        if parameters and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD:
            end -= 1
        parameters.insert(end, out)
    return inspect.Signature(parameters)


def _strip_old_names(body: Callable) -> inspect.Signature:
    """Return a body's signature without the parameter that collects old-order arguments."""
    signature = inspect.signature(body)
    rest = [p for p in signature.parameters.values() if p.kind is not p.VAR_POSITIONAL]
    return signature.replace(parameters=rest)


def _accept_numpy_names(name: str, body: Callable) -> Callable:
    """Wrap a composite to accept NumPy's parameter names too."""
    known = inspect.signature(body).parameters
    aliases = [(name, alias) for name, alias in NUMPY_NAMES.items() if name in known]
    plain = list_plain_parameters(body)

    @functools.wraps(body)
    def function(*args: Any, **kwargs: Any) -> Any:
        for i, parameter, kind in plain:
            if (args[i].__class__ is not kind if i < len(args)
                    else parameter in kwargs and kwargs[parameter].__class__ is not kind):
                check_call(name, body, args, kwargs)
        if kwargs:
            if kwargs.get("dtype").__class__ is type:
                kwargs["dtype"] = as_dtype(kwargs["dtype"])
            for parameter, alias in aliases:
                if alias in kwargs and parameter not in kwargs:
                    kwargs[parameter] = kwargs.pop(alias)
        try:
            return body(*args, **kwargs)
        except AttributeError as error:
            return answer_failed(error, name, body, args, kwargs, function)

    return function
