"""`__torch_function__`: public functions dispatch calls to modes and to the arguments' classes.

While a mode is on, and once an object of an overriding class exists, every public function and
method has a stub that checks for them. A program without either has no overhead.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ...native.foundation.method_patches import library_attributes
from ...native.foundation.user_frames import warn
from ...tensor.absent import Lacking
from ...tensor.ambient import note_change
from ...tensor.devices import device
from ...tensor.dtypes import dtype
from ...tensor.layout import layout, memory_format
from ...tensor.size import Size
from ...tensor.tensor import Tensor
from ..core.errors import MISSING, Overriding
from ..core.operator import PUBLIC, Operator
from .stub_set import StubSet

# Argument types that do not override and contain nothing that could.
_ORDINARY: set[type] = {
    Tensor, Size, bool, int, float, complex, str, bytes, type(None), slice, type(...), dtype,
    device, layout, memory_format, type, np.ndarray, Lacking,
}
_CONTAINERS = (tuple, list, dict, set, frozenset)
# Packages whose classes stay as they are.
_LIBRARIES = frozenset(("flambeau", "torch", "builtins", "numpy"))
# Namespaces above this layer whose functions are intercepted: `nn.init` adds itself.
NAMESPACES: list[dict[str, Any]] = []
# Entry points of autograd, whose own calls are not intercepted.
INTERNAL: list[FunctionType] = []
# Observers of the classes of new subclass objects. One that returns True hears of each object of
# the class, others only of the first of a library class.
INSTANTIATED: list[Callable[[type], bool]] = []
_NEVER = frozenset(("is_tensor", "is_storage", "typename", "as_subclass", "broadcast_shapes"))

PLAIN_METHOD = (
    "Defining your `__torch_function__ as a plain method is deprecated and will be an error in "
    "future, please define it as a classmethod."
)


class _State(threading.local):
    """The overrides that are active in a thread."""

    def __init__(self) -> None:
        self.modes: list[Any] = []  # the last one is called first
        self.no_subclasses = 0  # depth of regions that ignore the arguments' classes
        self.nothing = 0  # depth of regions that also ignore modes
        self.inside = False  # a function of torch runs: its inner calls are not intercepted
        self.running = False  # the outermost mode is handling a call
        self.skipped: Any = None  # function whose next call is not intercepted
        self.operator = False  # the dispatched call is a Python operator


STATE = _State()


def _disabled_torch_function_impl(
    func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """Call the function: a `__torch_function__` that overrides nothing."""
    return func(*args, **(kwargs or {}))


def overrides(cls: type) -> bool:
    """Return whether the class has an overriding `__torch_function__`."""
    hook = getattr(cls, "__torch_function__", None)
    return hook is not None and hook is not _disabled_torch_function_impl and cls is not Tensor


def find_overloaded_arguments(values: Iterable[Any]) -> list[Any]:
    """Return the values whose classes override, one per class, subclasses before their bases."""
    chosen: list[Any] = []
    for value in values:
        cls = type(value)
        if cls in _ORDINARY or not overrides(cls) or any(type(v) is cls for v in chosen):
            continue
        index = next((i for i, v in enumerate(chosen) if issubclass(cls, type(v))), len(chosen))
        chosen.insert(index, value)
    return chosen


def _flatten_arguments(args: tuple, kwargs: dict[str, Any]) -> list[Any]:
    """Return the arguments, with lists and tuples expanded one level."""
    values: list[Any] = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, (list, tuple)) and value.__class__ is not Size:
            values.extend(value)
        else:
            values.append(value)
    return values


def takes(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Return whether a call has arguments of overriding classes."""
    return bool(find_overloaded_arguments(_flatten_arguments(args, kwargs)))


def call(function: Any, original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Dispatch a public call to the last mode, else to the arguments' classes."""
    state = STATE
    if not state.modes or state.nothing:
        if state.running and not state.inside:
            return _run(function, original, args, kwargs)
        if state.inside or (_ORDINARY.issuperset(map(type, args)) and not kwargs):
            return original(*args, **kwargs)
        match = () if state.no_subclasses else find_overloaded_arguments(
            _flatten_arguments(args, kwargs)
        )
        if not match:
            return original(*args, **kwargs)
        if state.skipped is function:
            state.skipped = None
            return original(*args, **kwargs)
        return ask(function, match, args, kwargs)
    if state.skipped is function:
        state.skipped = None
        return original(*args, **kwargs)
    match = () if state.no_subclasses else find_overloaded_arguments(_flatten_arguments(args,
                                                                                        kwargs))
    result = ask_mode(function, tuple(map(type, match)), args, kwargs, original)
    return ask(function, match, args, kwargs, state.modes[-1]) if result is NotImplemented \
        else result


def offer_to_mode(function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Return the innermost mode's result for an entry of torch.ops. MISSING if there is no mode, or
    one that sees public functions only."""
    state = STATE
    if not state.modes or state.nothing or not (
            getattr(state.modes[-1], "sees_operators", True) or does_mode_want(function)):
        return MISSING
    match = () if state.no_subclasses else find_overloaded_arguments(_flatten_arguments(args,
                                                                                        kwargs))
    result = ask_mode(function, tuple(map(type, match)), args, kwargs, function)
    return MISSING if result is NotImplemented else result


def does_mode_want(operator: Any) -> bool:
    """Return whether the innermost mode is a recorder that keeps calls of a custom operator."""
    whole = getattr(STATE.modes[-1], "whole_operators", ()) if STATE.modes else ()
    return any(operator is known for known in whole)


def _run(function: Any, original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Run a call made by the outermost mode, without intercepting its inner calls."""
    state = STATE
    result = () if state.no_subclasses else find_overloaded_arguments(_flatten_arguments(args,
                                                                                         kwargs))
    if result:
        return ask(function, result, args, kwargs)
    state.inside = True
    try:
        return original(*args, **kwargs)
    finally:
        state.inside = False


def ask_mode(
    function: Any, kinds: tuple[type, ...], args: tuple, kwargs: dict[str, Any],
    original: Callable | None = None,
) -> Any:
    """Return the result of the innermost mode, which is disabled during its own call."""
    state = STATE
    mode = state.modes[-1]
    if getattr(mode.__torch_function__, "__self__", mode) is not mode:
        raise RuntimeError("Defining your mode's `__torch_function__` as a classmethod is not "
                           "supported, please make it a plain method")
    state.modes.pop()
    state.running, outer = original is not None and not state.modes, state.running
    try:
        return mode.__torch_function__(function, kinds, args, kwargs)
    finally:
        state.running = outer
        state.modes.append(mode)


def ask(
    function: Any, overriders: Sequence[Any], args: tuple, kwargs: dict[str, Any], mode: Any = None
) -> Any:
    """Return the first result that is not NotImplemented; TypeError if all classes return it."""
    kinds = tuple(map(type, overriders))
    for value in overriders:
        hook = value.__torch_function__
        if getattr(hook, "__self__", None) is value:
            warn(PLAIN_METHOD, DeprecationWarning)
        result = hook(function, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    name = _find_full_name(function)
    lines = [f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned "
             "NotImplemented:\n\n"]
    if mode is not None:
        lines.append(f"  - mode object {mode!r}\n")
    lines += [f"  - tensor subclass {kind!r}\n" for kind in kinds]
    raise TypeError("".join(lines) + "\nFor more information, try re-running with "
                    "TORCH_LOGS=not_implemented")


def _find_full_name(function: Any) -> str:
    name = getattr(function, "__name__", "")
    for space in ("torch", "nn.functional", "linalg", "special", "fft"):
        if PUBLIC.get(space, {}).get(name) is function:
            return "torch." + (name if space == "torch" else f"{space}.{name}")
    return f"torch.Tensor.{name}" if hasattr(Tensor, name) else name


# ------------------------------------------------------------------------- which functions, when


_routes: dict[FunctionType, tuple[Any, ...]] = {}
_routes_of: list[Any] = []  # contents of the namespaces when `_routes` was built


def _find_routes() -> dict[FunctionType, tuple[Any, ...]]:
    """Return all public functions with their handlers; the same dict until one is added.

    Comparing the namespaces' contents takes a twentieth of the time of searching for functions.
    """
    global _routes
    spaces = (*PUBLIC.values(), library_attributes(Tensor), *NAMESPACES)
    present = list(INTERNAL)
    for names in spaces:
        present += names.values()
    if len(present) != len(_routes_of) or not all(map(operator.is_, present, _routes_of)):
        _routes = dict.fromkeys(INTERNAL, (_run_internal,)) | list_public_functions()
        _routes_of[:] = present
    return _routes


ROUTES = StubSet(_find_routes)


def enter(mode: Any) -> None:
    """Push a mode, which receives this thread's calls first."""
    ROUTES.enter()
    if ROUTES.modes == 1:
        _route_properties(Tensor)
    STATE.modes.append(mode)
    note_change(observers=1)


@contextlib.contextmanager
def mark_handed_over() -> Iterator[None]:
    """Context in which calls already dispatch to the arguments' classes."""
    ROUTES.enter()
    try:
        yield
    finally:
        ROUTES.leave()


def leave(mode: Any) -> None:
    """Remove the last mode from this thread."""
    STATE.modes.remove(mode)
    ROUTES.leave()
    if not ROUTES.modes:
        _unroute_properties(Tensor)
    note_change(observers=-1)


def meet(cls: type) -> bool:
    """Record that objects of a class exist; return whether the class overrides."""
    if cls in _ORDINARY:
        return False
    watched = [listener(cls) for listener in INSTANTIATED]
    if not overrides(cls):
        if not any(watched) and cls.__module__.partition(".")[0] in _LIBRARIES \
                and not issubclass(cls, _CONTAINERS):
            _ORDINARY.add(cls)
        return False
    ROUTES.need_always()
    if issubclass(cls, Tensor) and cls not in _routed:
        _route_properties(cls)
    return True


def _dispatch_failed_call(operator: Operator, args: tuple) -> Any:
    """Dispatch a call that failed on a non-tensor argument whose class overrides; else MISSING.

    Later calls are dispatched before they start.
    """
    values = _flatten_arguments(args, {})
    if not any(meet(type(v)) for v in values if not isinstance(v, Tensor)):
        return MISSING
    if STATE.no_subclasses:
        return MISSING
    # `add` is a composite of `_add`, which has its public name but for the underscore.
    function = PUBLIC["torch"].get(operator.name.lstrip("_"), operator.function)
    return ask(function, find_overloaded_arguments(values), *_list_given_arguments(operator, args))


_noticed: set[type] = set()


def _notice(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Meet the classes of arguments that are no tensors; return whether a new one overrides."""
    if STATE.no_subclasses:
        return False
    kinds = {type(v) for v in _flatten_arguments(args, kwargs) if not isinstance(v, Tensor)}
    new = [kind for kind in kinds - _noticed - _ORDINARY if overrides(kind)]
    _noticed.update(new)
    for kind in new:
        meet(kind)
    return bool(new)


def _list_given_arguments(operator: Operator, args: tuple) -> tuple[tuple, dict[str, Any]]:
    """Return an operator's arguments as a call may have passed them: without defaults, and by name
    where they have to be."""
    positional, named = [], {}
    for value, parameter in zip(args, operator.parameters, strict=False):
        if parameter.kind is not parameter.KEYWORD_ONLY:
            positional.append((value, parameter.default))
        elif value is not parameter.default:
            named[parameter.name] = value
    while positional and positional[-1][0] is positional[-1][1]:
        positional.pop()
    return tuple([value for value, _ in positional]), named


@functools.cache
def find_seen_function(operator: Operator) -> Callable:
    """Return the function that runs an operator below a transform so that modes see the call.

    They see public functions only. For a private operator this is its composite, if that begins
    with its parameters, as `add` does with those of `_add`.
    """
    name, expected = operator.name.lstrip("_"), list(operator.names)
    for space in ("torch", "nn.functional", "linalg", "special"):
        composite = PUBLIC.get(space, {}).get(name)
        if composite is not None and name != operator.name:
            leading = list(inspect.signature(composite).parameters.values())[: len(expected)]
            if [p.name for p in leading if p.kind is not p.KEYWORD_ONLY] == expected:
                return composite
    return operator.function


def check_for(function: Any, problem: Callable[[str], None]) -> Callable | None:
    """Return, for a capture, a check that dispatches calls on overriding arguments to their
    classes; None if not needed. A mode of the step's own brings back the stubs, which do it."""
    handle, *names = ROUTES.targets.get(function, (None,))
    if not ROUTES.permanent or not names:
        return None
    shown, state = names[0], STATE

    def check(args: tuple, kwargs: dict[str, Any]) -> Callable | None:
        if ROUTES.is_on or state.no_subclasses \
                or (_ORDINARY.issuperset(map(type, args)) and not kwargs) \
                or not (result := find_overloaded_arguments(_flatten_arguments(args, kwargs))):
            return None
        if state.skipped is shown:
            state.skipped = None
            return None
        problem(f"{type(result[0]).__name__} overrides {shown.__name__}")
        return lambda args, kwargs: handle(shown, function, args, kwargs)

    return check


def as_internal(function: Any, record: Callable) -> Callable:
    """Return, for a capture, the recorder of a function: with that of an entry point of autograd,
    inner calls are not dispatched."""
    return functools.partial(_run_internally, record) if function in INTERNAL else record


def _run_internally(record: Callable, original: Callable, args: tuple, kwargs: dict) -> Any:
    return _run_internal(lambda *args, **kwargs: record(original, args, kwargs), args, kwargs)


def _call_operator(function: Any, original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Dispatch a Python operator; if no class implements it, defer to the other operand."""
    if not STATE.modes and _ORDINARY.issuperset(map(type, args)):
        return original(*args, **kwargs)
    before, STATE.operator = STATE.operator, True
    try:
        return call(function, original, args, kwargs)
    except TypeError:
        if STATE.modes:
            raise
        return NotImplemented
    finally:
        STATE.operator = before


def _call_rearranged(
    function: Any, original: Callable, args: tuple, kwargs: dict[str, Any]
) -> Any:
    """Dispatch a function that hands classes its arguments in another order than it got them."""
    if not STATE.modes:
        args = function.rearrange_dispatched(args)
    return call(function, original, args, kwargs)


def _run_internal(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    state = STATE
    state.no_subclasses += 1
    state.nothing += 1
    try:
        return original(*args, **kwargs)
    finally:
        state.no_subclasses -= 1
        state.nothing -= 1


@contextlib.contextmanager
def enable_dispatch() -> Iterator[None]:
    """Context in which calls dispatch to classes, inside an entry point of autograd too."""
    state = STATE
    before = state.no_subclasses, state.nothing
    state.no_subclasses = state.nothing = 0
    try:
        yield
    finally:
        state.no_subclasses, state.nothing = before


# Python's operators: the method that `__torch_function__` receives, as in PyTorch.
PYTHON_OPERATORS = {
    "__add__": "add", "__radd__": "add", "__iadd__": "add_", "__sub__": "sub", "__isub__": "sub_",
    "__mul__": "mul", "__rmul__": "mul", "__imul__": "mul_", "__truediv__": "div", "__div__": "div",
    "__itruediv__": "div_", "__idiv__": "div_", "__neg__": "neg", "__pos__": "positive",
    "__invert__": "bitwise_not", "__eq__": "", "__ne__": "ne", "__lt__": "lt", "__le__": "le",
    "__gt__": "gt", "__ge__": "ge", "__mod__": "remainder", "__imod__": "remainder_",
    "__abs__": "abs", "__matmul__": "matmul", "__floordiv__": "", "__pow__": "", "__ipow__": "",
    "__rsub__": "", "__rtruediv__": "", "__rdiv__": "", "__rpow__": "", "__rfloordiv__": "",
    "__ifloordiv__": "", "__rmod__": "", "__rmatmul__": "", "__and__": "", "__rand__": "",
    "__iand__": "", "__or__": "", "__ror__": "", "__ior__": "", "__xor__": "", "__rxor__": "",
    "__ixor__": "", "__lshift__": "", "__rlshift__": "", "__ilshift__": "", "__rshift__": "",
    "__rrshift__": "", "__irshift__": "",
}
_PROTOCOLS = ("__getitem__", "__setitem__", "__len__", "__bool__", "__float__", "__int__",
              "__complex__", "__index__", "__repr__", "__format__", "__deepcopy__", "__reversed__",
              "__contains__", "__array__", "__reduce_ex__", "__dlpack__")


# Draws of distributions, which a trace has to repeat.
_PRIVATE_DRAWS = frozenset(("_standard_gamma", "_sample_dirichlet"))


def list_public_functions() -> dict[FunctionType, tuple[Callable, Any]]:
    """Return, per public function, its handler and the function passed to `__torch_function__`."""
    result: dict[FunctionType, tuple[Callable, Any]] = {}
    methods = library_attributes(Tensor)
    for name, method in PYTHON_OPERATORS.items():
        function = methods.get(name)
        if isinstance(function, FunctionType):
            result.setdefault(function, (_call_operator, methods.get(method, function)))
            if not method:
                function.__name__ = name
    for name in _PROTOCOLS:
        if isinstance(methods.get(name), FunctionType):
            result.setdefault(methods[name], (call, methods[name]))
            methods[name].__name__ = name
    for names in (*PUBLIC.values(), methods, *NAMESPACES):
        for name, function in names.items():
            if isinstance(function, FunctionType) and name not in _NEVER \
                    and (not name.startswith("_") or name in _PRIVATE_DRAWS):
                handler = _call_rearranged if hasattr(function, "rearrange_dispatched") else call
                result[function] = (handler, function)
                if function.__name__.startswith("_") and name not in _PRIVATE_DRAWS:
                    function.__name__ = name
    return result


# ------------------------------------------------------------------------------------ attributes

_routed: dict[type, list[str]] = {}
_SLOTS = {name: value for name, value in vars(Tensor).items() if isinstance(value, property)}


def list_properties() -> dict[str, property]:
    """Return Tensor's public properties, passed to `__torch_function__` as e.g.
    `Tensor.shape.__get__`."""
    if not _routed:
        _SLOTS.update({n: v for n, v in vars(Tensor).items() if isinstance(v, property)})
    return {n: v for n, v in _SLOTS.items() if not n.startswith("_") or n == "_version"}


def _route_properties(cls: type) -> None:
    known = list_properties()
    subclass: Any = cls
    hook = getattr(subclass.__torch_function__, "__func__", None)
    if cls is not Tensor and hook is vars(Tensor)["__torch_function__"].__func__:
        known = {n: known[n] for n in _TENSORS}  # the default hook changes nothing else
    inherited = [n for n in known if next(k for k in cls.__mro__ if n in vars(k)) is Tensor]
    _routed[cls] = inherited
    for name in inherited:
        setattr(cls, name, _create_routed_property(known[name]))


# Properties whose values are tensors, which the default hook converts to the class.
_TENSORS = ("T", "H", "mT", "mH", "real", "imag", "data")


def _unroute_properties(cls: type) -> None:
    for name in _routed.pop(cls, ()):
        setattr(cls, name, _SLOTS[name])


def _create_routed_property(original: property) -> property:
    def get(self: Any) -> Any:
        return _access_attribute(original.__get__, self)

    def set_value(self: Any, value: Any) -> None:
        _access_attribute(original.__set__, self, value)

    def delete(self: Any) -> None:
        _access_attribute(original.__delete__, self)

    setter, deleter = original.fset and set_value, original.fdel and delete
    return property(get, setter, deleter, original.__doc__)


def _access_attribute(accessor: Any, *args: Any) -> Any:
    state = STATE
    if state.inside or (not state.modes and (state.no_subclasses or type(args[0]) in _ORDINARY)):
        return accessor(*args)
    return call(accessor, accessor, args, {})


Overriding.answers.append(_dispatch_failed_call)
Overriding.notice = staticmethod(_notice)
Overriding.ask_mode = staticmethod(offer_to_mode)
Overriding.wants = staticmethod(does_mode_want)
