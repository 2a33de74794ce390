"""Errors of operators: failures in a body, reported with PyTorch's exception types and messages,
the operator's name, and its arguments' shapes and dtypes."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...native.foundation.allocation import explain_allocation
from ...native.foundation.public_names import c_class_name
from ...native.foundation.user_frames import add_notes
from ...tensor.narrow_dtypes import COMPLEX32
from ...tensor.promotion import build_missing_kernel_error, result_dtype
from ...tensor.tensor import Tensor
from .arguments.checks import check_annotated, check_call, list_plain_parameters

if TYPE_CHECKING:
    from .operator import Operator

_UFuncTypeError: Any = vars(np)["_core"]._exceptions.UFuncTypeError  # not exported by NumPy
# Raised by NumPy for bad arguments; other subclasses of ValueError are already clear.
_OF_NUMPY = frozenset((ValueError, np.exceptions.AxisError, np.linalg.LinAlgError))
_MUST_BE = re.compile(r"\(\): argument '(\w+)' \(position (\d+)\)( must be .*)", re.DOTALL)
_COUNT = re.compile(r"\(\) (takes|missing) .*")
_OVERLOADS = re.compile(r"(\(\) received an invalid .* - got \()Tensor, (\w+)(\).*)", re.DOTALL)
_NO_NAMES: dict[str, Any] = {}

NUMPY_NAMES = {"dim": "axis", "keepdim": "keepdims"}  # accepted besides PyTorch's names


class Overriding:
    """Hands a call that fails on plain tensors to the class of an argument.

    `answers`: functions of (operator, arguments) that return the class's result, or MISSING; the
    latest are asked first. Interception and kinds of tensors add them.
    """

    # Hands a call of an entry of torch.ops to the innermost mode: called with (entry, arguments,
    # keywords); returns the mode's result, or MISSING if there is none that wants it.
    ask_mode: Callable[[Any, tuple, dict[str, Any]], Any]
    # Whether the innermost mode wants calls of a custom operator as such, not its kernel's.
    wants: Callable[[Any], bool]

    answers: ClassVar[list[Callable[[Operator, tuple], Any]]] = []

    # Whether arguments and keywords hold objects of an overriding class that was not known before:
    # now it is, and the same call is dispatched.
    notice: Callable[[tuple, dict[str, Any]], bool]

    @classmethod
    def ask(cls, operator: Operator, args: tuple) -> Any:
        """Return the first answer, or MISSING if no class overrides the operator."""
        for answer in cls.answers:
            if (result := answer(operator, args)) is not MISSING:
                return result
        return MISSING

    @staticmethod
    def into(out: Any, answer: Any) -> Any:
        """Convert the argument for `out`, if its class can."""
        return answer


MISSING = type("Missing", (), {"__repr__": lambda self: "<required>"})()


class RefusedValue(ValueError):
    """A ValueError of flambeau's; `explain` raises it as a plain ValueError, message unchanged."""


def explain(operator: Operator, error: Exception, args: tuple) -> Exception:
    """Return the exception to raise for `error`, raised by `operator` on `args`."""
    if isinstance(error, AttributeError):
        refused = _describe_refused_argument(operator, args)
        if refused is not None:
            return refused
    check_annotated(operator, args)
    if error.__class__ is RefusedValue:
        return ValueError(*error.args)
    if isinstance(error, MemoryError):
        shape, kind = getattr(error, "shape", None), getattr(error, "dtype", None)
        return error if shape is None or kind is None else explain_allocation(error, shape, kind)
    if error.__class__ in _OF_NUMPY:
        return _explain_shapes(operator, error, args)
    if isinstance(error, TypeError) and any(
        t._array.dtype == COMPLEX32 for t in _list_tensors(args)
    ):
        return NotImplementedError(f"\"{operator.name.strip('_')}_cpu\" not implemented for "
                                   "'ComplexHalf'")
    if isinstance(error, _UFuncTypeError) or (
        isinstance(error, TypeError) and str(error).startswith("ufunc '")
    ):
        return _refuse(operator, args)
    return error


def _refuse(operator: Operator, args: tuple) -> Exception:
    """Return the error for a dtype on which NumPy's function of a body is not defined."""
    operands = tuple(_list_tensors(args))
    kind = result_dtype(operands)
    if operator.refuse is not None:
        try:
            operator.refuse(operator, operands, kind)
        except Exception as refusal:
            return refusal
    return build_missing_kernel_error(f"{operator.name.strip('_')}_cpu", kind)


def _list_tensors(args: tuple) -> list[Tensor]:
    result: list[Tensor] = []
    for value in args:
        if isinstance(value, Tensor):
            result.append(value)
        elif isinstance(value, (list, tuple)):
            result.extend(v for v in value if isinstance(v, Tensor))
    return result


def _describe_refused_argument(operator: Operator, args: tuple) -> TypeError | None:
    for i in operator.tensor_positions:
        value = args[i] if i < len(args) else None
        note = str(operator.parameters[i].annotation)
        if i in operator.sequence_positions:
            for k, v in enumerate(value or ()):
                if not isinstance(v, Tensor):
                    return TypeError(
                        f"expected Tensor as element {k} in argument {i}, but got "
                        f"{c_class_name(v)}"
                    )
        elif "Number" in note and isinstance(value, (bool, int, float, complex)):
            continue
        elif not isinstance(value, Tensor) and not (value is None and "None" in note):
            return build_tensor_error(operator.name.lstrip("_"), operator.names[i], i, value)
    return None


def build_tensor_error(name: str, argument: str, position: int, value: Any) -> TypeError:
    """Return PyTorch's TypeError for an argument that must be a tensor, with advice."""
    return add_notes(TypeError(f"{name}(): argument '{argument}' (position {position + 1}) must be "
                               f"Tensor, not {c_class_name(value)}"), advise_on_array(value))


def build_overload_error(name: str, arguments: Sequence[str], operands: Sequence[Any]) -> TypeError:
    """Return PyTorch's TypeError of a function whose second operand is a tensor or number."""
    kinds = ", ".join(c_class_name(x) for x in operands)
    takes = "".join(f" * (Tensor {arguments[0]}, {kind} {arguments[1]}, *, Tensor out = None)\n"
                    for kind in ("Tensor", "Number"))
    error = TypeError(f"{name}() received an invalid combination of arguments - got ({kinds}), but "
                      f"expected one of:\n{takes}")
    return add_notes(error, *map(advise_on_array, operands))


def advise_on_array(value: Any) -> str | None:
    """Return the note for a NumPy array in a tensor's place, None for anything else."""
    if not isinstance(value, np.ndarray):
        return None
    return "torch.from_numpy(array) is a tensor that shares the array's memory."


def wrap_with_explanation(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a composite to raise PyTorch's TypeError if an argument is not a tensor, int or bool.

    Only ints and bools are checked beforehand, as Python computes with others: the wrapper costs
    0.1 us. A composite that catches the error itself calls `explain_attribute_error` in its body
    instead, which costs nothing unless something fails.
    """
    plain = list_plain_parameters(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for i, parameter, kind in plain:
            if (args[i].__class__ is not kind if i < len(args)
                    else parameter in kwargs and kwargs[parameter].__class__ is not kind):
                check_call(name, function, args, kwargs)
        try:
            return function(*args, **kwargs)
        except AttributeError as error:
            return answer_failed(error, name, function, args, kwargs, call)
        except (TypeError, ValueError, RuntimeError):
            if Overriding.notice(args, kwargs):
                return find_outermost(call)(*args, **kwargs)
            if (renamed := _rename_numpy_names(function, kwargs)) is not None:
                return call(*args, **renamed)
            check_call(name, function, args, kwargs)
            raise

    return call


def _rename_numpy_names(
    function: Callable[..., Any], kwargs: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the arguments under PyTorch's names, or None if none has NumPy's."""
    known = inspect.signature(function).parameters
    names = {alias: name for name, alias in NUMPY_NAMES.items()
             if name in known and alias not in known and alias in kwargs and name not in kwargs}
    return {names.get(name, name): value for name, value in kwargs.items()} if names else None


# The public functions around wrappers, where there is another one.
_OUTERMOST: dict[Callable[..., Any], Callable[..., Any]] = {}


def note_outermost(wrapper: Callable[..., Any], public: Callable[..., Any]) -> None:
    """Note that a composite's public function lies around one of its wrappers."""
    _OUTERMOST[wrapper] = public


def find_outermost(wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """Return the public function around a wrapper, which dispatches to overriding classes."""
    return _OUTERMOST.get(wrapper, wrapper)


def answer_failed(
    error: AttributeError, name: str, function: Callable[..., Any], args: tuple,
    kwargs: dict[str, Any] = _NO_NAMES, public: Callable[..., Any] | None = None
) -> Any:
    """Call a function again if its call failed on an object whose class overrides, the first of
    it; else raise PyTorch's TypeError for the argument that lacks a tensor's attribute.

    `public`: what is called again, if it is another function.
    """
    if Overriding.notice(args, kwargs):
        return find_outermost(public or function)(*args, **kwargs)
    raise explain_attribute_error(error, name, function, args, kwargs) from None


def explain_attribute_error(
    error: AttributeError, name: str, function: Callable[..., Any], args: tuple = (),
    kwargs: dict[str, Any] = _NO_NAMES,
) -> Exception:
    """Return PyTorch's TypeError for the argument that lacks a tensor's attribute, or the error.

    The argument is found by the error's object, which is the argument or was computed from it.
    """
    if isinstance(error.obj, Tensor):
        return error
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return error
    kind = c_class_name(error.obj)
    computed = None
    for i, (parameter, value) in enumerate(bound.items()):
        is_tensor = signature.parameters[parameter].annotation == "Tensor" \
            and not isinstance(value, Tensor)
        if value is error.obj or is_tensor:
            place = "" if parameter in kwargs else f" (position {i + 1})"
            shown = "input" if i == 0 and parameter == "self" else parameter
            explained = TypeError(f"{name}(): argument '{shown}'{place} must be Tensor, not "
                                  f"{c_class_name(value)}")
            add_notes(explained, advise_on_array(value))
            if value is error.obj:
                return explained
            computed = computed or explained
        if isinstance(value, (list, tuple)):
            for k, element in enumerate(value):
                if element is error.obj:
                    return TypeError(
                        f"expected Tensor as element {k} in argument {i}, but got {kind}"
                    )
    return computed or error


def _explain_shapes(operator: Operator, error: Exception, args: tuple) -> Exception:
    tensors = _list_tensors(args)
    if "broadcast" in str(error) and len(tensors) >= 2:
        result = broadcast_mismatch([t._array.shape for t in tensors])
        if result is not None:
            explained = RuntimeError(result)
            explained.add_note(f"In {operator.name.strip('_')} of {describe(tensors)}.")
            return explained
    if isinstance(error, np.exceptions.AxisError):
        return IndexError(
            f"Dimension out of range ({error}) in {operator.name} of {describe(tensors)}"
        )
    return RuntimeError(f"{operator.name}: {error} (on {describe(tensors)})")


def broadcast_mismatch(shapes: list[tuple[int, ...]]) -> str | None:
    """Return PyTorch's sentence on the first two shapes that do not broadcast."""
    for a, b in zip(shapes, shapes[1:], strict=False):
        rank = max(len(a), len(b))
        wide = [(1,) * (rank - len(s)) + tuple(s) for s in (a, b)]
        for axis in reversed(range(rank)):
            m, n = wide[0][axis], wide[1][axis]
            if m != n and 1 not in (m, n):
                return (
                    f"The size of tensor a ({m}) must match the size of tensor b ({n}) at "
                    f"non-singleton dimension {axis}"
                )
    return None


def describe(tensors: list[Tensor]) -> str:
    """Return shapes and dtypes for a message."""
    return ", ".join(f"{t.dtype}{list(t.shape)}" for t in tensors) or "no tensors"


# --------------------------------------------------------------------- methods in place


def restate_for_method(error: TypeError, operator: Operator, args: tuple, kwargs: dict) -> None:
    """Reword the error that an operator's function raised, called by its in-place twin: positions
    and counts leave out `self`, and functions without arguments are named by their class."""
    name, text = operator.name.lstrip("_"), str(error)
    for prefix in (operator.name, name):
        if not text.startswith(prefix + "("):
            continue
        rest = text[len(prefix):]
        for restate in (_restate_kind, _restate_count, _restate_overloads):
            if (message := restate(f"{name}_", rest, operator, args, kwargs)) is not None:
                error.args = (message,)
                return
        error.args = (f"{name}_{rest}",)
        return


def _restate_kind(
    name: str, rest: str, operator: Operator, args: tuple, kwargs: dict
) -> str | None:
    match = _MUST_BE.fullmatch(rest)
    if match is None:
        return None
    argument, position, end = match.groups()
    place = "" if argument in kwargs else f" (position {int(position) - 1})"
    return f"{name}(): argument '{argument}'{place}{end}"


def _restate_count(
    name: str, rest: str, operator: Operator, args: tuple, kwargs: dict
) -> str | None:
    if _COUNT.fullmatch(rest) is None:
        return None
    parameters, came = operator.parameters[1:], len(args)
    if not parameters:
        return f"Tensor.{name}() takes no arguments ({came} given)"
    if any("Number" in str(p.annotation) or p.kind is p.KEYWORD_ONLY for p in parameters):
        return None  # PyTorch lists its overloads
    required = [p.name for p in parameters if p.default is p.empty]
    absent = [n for n in required[came:] if n not in kwargs]
    if absent:  # PyTorch's plural
        plural = "s" * (len(absent) == 1)
        listed = ", ".join(f'"{n}"' for n in absent)
        return f"{name}() missing {len(absent)} required positional argument{plural}: {listed}"
    most = len(parameters)
    least = f"from {len(required)} to " if len(required) < most else ""
    limit = f"{least}{most} positional argument{'s' * bool(least or most > 1)}"
    return f"{name}() takes {limit} but {came} {'was' if came == 1 else 'were'} given"


def _restate_overloads(
    name: str, rest: str, operator: Operator, args: tuple, kwargs: dict
) -> str | None:
    match = _OVERLOADS.fullmatch(rest)
    if match is None:
        return None
    start, kind, end = match.groups()
    got, wrong = (f"other={kind}, ", f"!other={kind}!, ") if kwargs else (kind, f"!{kind}!")
    end = end.replace("(Tensor input, ", "(").replace(", *, Tensor out = None", "")
    reason = f"      didn't match because some of the arguments have invalid types: ({wrong})\n"
    lines = [line + reason * line.startswith(" * ") for line in end.splitlines(keepends=True)]
    return f"{name}{start}{got}{''.join(lines)}"
