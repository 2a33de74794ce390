"""`__torch_dispatch__`: dispatch operator calls, below autograd, to modes and wrapper classes.

As with `__torch_function__`, operators get stubs once an instance of such a class exists and while
a TorchDispatchMode is on. The handler receives overloads such as `torch.ops.aten.mul.Tensor`; the
tape records its result like the operator's own.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from ...autograd.backward import create_ones, require_gradients
from ...autograd.mode import MODE
from ...autograd.saved.values import SavedOutput
from ...autograd.tape import record
from ...native.foundation.method_patches import library_attributes
from ...tensor.ambient import note_change
from ...tensor.layout import preserve_format
from ...tensor.tensor import Tensor
from ...tensor.tree import collect_leaves
from ..core.aten import aten
from ..core.dispatch import find_pointwise_operator
from ..core.operator import OPERATORS, PUBLIC, Kind, Operator
from ..creation.random import IN_PLACE_DRAWS
from . import forward_mode, operator_arguments
from .aten_forms import FORMS, match_schema, own_packet, seal
from .dispatched.factories import complete_options, convert_factory_call
from .dispatched.index import is_whole, make_positions, split_index, write_index
from .dispatched.writes import convert, overwrite, spread, write_in_place
from .stub_set import StubSet
from .torch_function import INSTANTIATED, _disabled_torch_function_impl


LOWEST_MODES: list[Any] = []  # of all threads, below those of TorchDispatchMode


class _State(threading.local):
    """This thread's modes, innermost last."""

    def __init__(self) -> None:
        self.modes: list[Any] = list(LOWEST_MODES)
        self.classes_off = 0  # depth of regions that ignore classes
        self.grad_outside = False  # whether autograd records what is handed over


STATE = _State()


def dispatches(cls: type) -> bool:
    """Return whether the class has an enabled `__torch_dispatch__`."""
    hook = getattr(cls, "__torch_dispatch__", None)
    return hook is not None and hook is not _disabled_torch_dispatch_impl


def _disabled_torch_dispatch_impl(
    func: Callable[..., Any], types: Any, args: Sequence[Any] = (),
    kwargs: dict[str, Any] | None = None,
) -> Any:
    """Return `func`'s result on arguments taken as plain tensors: Tensor's `__torch_dispatch__`.

    A class that has it as its own does not dispatch.
    """
    with without_dispatch():
        return func(*args, **(kwargs or {}))


STUBS = StubSet(lambda: _find_targets())


def enter(mode: Any) -> None:
    """Push a mode, which receives this thread's operator calls first."""
    STUBS.enter()
    STATE.modes.append(mode)
    note_change(observers=1)


def leave() -> Any:
    """Remove and return the last mode."""
    mode = STATE.modes.pop()
    STUBS.leave()
    note_change(observers=-1)
    return mode


def install_lowest(mode: Any) -> None:
    """Add a mode below all others, in this thread and in those that start later."""
    STUBS.enter()
    LOWEST_MODES.append(mode)
    STATE.modes.insert(0, mode)
    note_change(observers=1)


def remove_lowest(mode: Any) -> None:
    """Undo `install_lowest`."""
    LOWEST_MODES.remove(mode)
    if mode in STATE.modes:
        STATE.modes.remove(mode)
    STUBS.leave()
    note_change(observers=-1)


def get_program_modes() -> list[Any]:
    """Return this thread's modes without the lowest ones, innermost last."""
    return [mode for mode in STATE.modes if mode not in LOWEST_MODES]


@contextmanager
def without_dispatch() -> Iterator[None]:
    """Context in which this thread dispatches to neither modes nor classes."""
    modes, STATE.modes = STATE.modes, []
    STATE.classes_off += 1
    try:
        yield
    finally:
        STATE.classes_off -= 1
        STATE.modes = modes


def meet(cls: type) -> bool:
    """Install the stubs permanently if the class dispatches; return whether it does."""
    if not dispatches(cls):
        return False
    STUBS.need_always()
    return True


def takes(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Return whether a call has arguments of dispatching classes."""
    return STUBS.permanent and bool(_ask((*args, *kwargs.values())))


def is_asked(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Return whether a mode is on, or an argument's class dispatches."""
    return bool(STATE.modes) or takes(args, kwargs)


def hand_over(func: Any, args: tuple, kwargs: dict[str, Any], label: str | None = None) -> Any:
    """Dispatch a call of an operator without a stub to the last mode or the first class that
    handles it. `label`: its name in errors, if it is another one."""
    return _hand_over(func, _ask((*args, *kwargs.values())), args, kwargs, label)


def find_handler(function: Any, args: tuple, kwargs: dict[str, Any]) -> Callable | None:
    """Return the handler of a call on wrappers, for a capture, which removes the stubs; or None."""
    if not STUBS.permanent or function not in STUBS.targets \
            or not _ask((*args, *kwargs.values())):
        return None
    handle, *first = STUBS.targets[function]
    return functools.partial(handle, *first, None)


def _find_targets() -> dict[Any, tuple[Any, ...]]:
    result: dict[Any, tuple[Any, ...]] = {}
    for operator in OPERATORS.values():
        if operator.kind is Kind.COMPOSITE:
            continue
        result[operator.function] = (_call, operator, False)
        twin = getattr(operator, "twin", None)
        if twin is not None:
            result[twin] = (_call_in_place, operator)
    for name, function in library_attributes(Tensor).items():
        if isinstance(function, FunctionType) and function not in result:
            if (pointwise := find_pointwise_operator(function)) is not None:
                result[function] = (_call, *pointwise)
            elif name in forward_mode.SHORT_CUTS:
                result[function] = (_dispatch_short_cut, name)
    result[Tensor.__getitem__], result[Tensor.__setitem__] = (_get_item,), (_set_item,)
    for name in ("copy_", "fill_", "zero_"):
        result[PUBLIC["Tensor"].get(name) or getattr(Tensor, name)] = (_overwrite, name)
    result |= {draw: (_overwrite, draw.__name__) for draw in IN_PLACE_DRAWS}
    for name in ("index_put", "index_put_"):
        result[PUBLIC["torch"][name]] = (_put_at_indices, name)
    result[Tensor.detach], result[create_ones] = (_detach,), (_start_backward,)
    result[Tensor.record_stream], result[Tensor.set_] = (_record_stream,), (_set,)
    result[Tensor.item] = (_dispatch_by_name, aten._local_scalar_dense.default)
    for name in ("equal", "nonzero", "masked_select", "histc", "multinomial", "bernoulli"):
        result[PUBLIC["torch"][name]] = (_dispatch_by_name, getattr(aten, name).default)
    one_hot = PUBLIC["nn.functional"]["one_hot"]
    result[one_hot] = (_dispatch_by_name, aten.one_hot.default)
    for name in ("bucketize", "searchsorted"):
        result[PUBLIC["torch"][name]] = (_dispatch_by_name, getattr(aten, name).Tensor)
    for name in _FACTORIES:
        result[PUBLIC["torch"][name]] = (_dispatch_factory, name)
    for space, name in _LIKE:
        result[PUBLIC[space][name]] = (_dispatch_factory_like, name)
    return result


def _ask(values: Sequence[Any]) -> list[Any]:
    """Return the values whose classes dispatch, one per class, subclasses before their bases."""
    chosen: list[Any] = []
    if STATE.classes_off:
        return chosen
    for value in collect_leaves(Tensor, values):
        cls = type(value)
        if cls is Tensor or not dispatches(cls) or any(type(v) is cls for v in chosen):
            continue
        index = next((i for i, v in enumerate(chosen) if issubclass(cls, type(v))), len(chosen))
        chosen.insert(index, value)
    return chosen


def _find_rule(func: Any, kind: type) -> Callable | None:
    """Return the rule registered for a custom operator and a class in place of the class's own."""
    rules: dict[type, Callable] = getattr(func, "dispatch_rules", {})
    return rules.get(kind)


def _hand_over(
    func: Any, match: list[Any], args: tuple, kwargs: dict[str, Any], label: str | None = None
) -> Any:
    """Call the innermost mode, then each class, until one does not return NotImplemented.

    Raises TypeError if all return it.
    """
    kinds = tuple(map(type, match))
    with_grad, MODE.grad = MODE.grad, False
    grad_outside, STATE.grad_outside = STATE.grad_outside, STATE.grad_outside or with_grad
    try:
        if STATE.modes:
            mode = STATE.modes.pop()
            try:
                if isinstance(getattr(mode.__torch_dispatch__, "__self__", None), type):
                    raise RuntimeError(
                        f"Defining your mode's `__torch_dispatch__` ({type(mode).__name__}) as a "
                        "classmethod is not supported, please make it a plain method")
                rule = _find_rule(func, type(mode))
                result = mode.__torch_dispatch__(func, kinds, args, kwargs) if rule is None \
                    else rule(mode, func, kinds, args, kwargs)
            finally:
                STATE.modes.append(mode)
            if result is not NotImplemented:
                return _check_result(func, result)
        for value in match:
            rule = _find_rule(func, type(value))
            result = type(value).__torch_dispatch__(func, kinds, args, kwargs) if rule is None \
                else rule(type(value), func, kinds, args, kwargs)
            if result is not NotImplemented:
                return _check_result(func, result)
    finally:
        MODE.grad, STATE.grad_outside = with_grad, grad_outside
    lines = "".join(f"  - tensor subclass {kind!r}\n" for kind in kinds)
    label = label or f"torch._ops.{func}"
    raise TypeError(f"Multiple dispatch failed for '{label}'; all __torch_dispatch__ "
                    f"handlers returned NotImplemented:\n\n{lines}\nFor more information, try "
                    "re-running with TORCH_LOGS=not_implemented")


def _check_result(func: Any, result: Any) -> Any:
    """Return a handler's result; RuntimeError for one that is no tensor where `func` returns one.
    """
    if result is None or isinstance(result, Tensor):
        return result
    schema = getattr(func, "_schema", None)
    if schema is not None and [str(value.type) for value in schema.returns] == ["Tensor"]:
        raise RuntimeError(f"Unable to cast {result} to Tensor")
    return result


def _call(
    operator: Operator, reflected: bool, original: Callable, args: tuple, kwargs: dict[str, Any]
) -> Any:
    match = _ask((*args, *kwargs.values()))
    if not match and not STATE.modes:
        return original(*args, **kwargs)
    if reflected:
        args = args[::-1]
    args = operator_arguments.gather_arguments(operator, args, kwargs)
    if "out" in kwargs and kwargs["out"] is None:
        del kwargs["out"]
    result = NotImplemented
    if operator.name == "_to_copy":
        result = convert(_hand_over_again, *args)
    elif operator.name in ("_var", "_std"):
        result = spread(_hand_over_again, operator.name.strip("_"), *args)
    elif operator.name in FORMS and "out" not in kwargs:
        result = FORMS[operator.name](
            _hand_over_again, *operator_arguments.bind_arguments(operator, args, kwargs, False))
    if result is NotImplemented:
        func, values, options = _convert_to_aten_call(
            operator, _drop_defaults(operator, args), kwargs
        )
        result = _hand_over(func, match, values, options)
    if MODE.grad and operator.differentiable and not (
        isinstance(result, Tensor) and result._requires_grad
    ):
        bound = operator_arguments.bind_arguments(operator, args, kwargs, False)
        record(operator, result, tuple(bound))
        if STATE.modes:
            _detach_saved_outputs(result)
    return result


def _detach_saved_outputs(result: Any) -> None:
    """Dispatch the detach by which PyTorch's nodes save outputs: modes see it."""
    parts = result if isinstance(result, tuple) else (result,)
    node = next((x._node for x in parts if isinstance(x, Tensor) and x._node is not None), None)
    node = None if node is None else node.shown()
    for value in getattr(node, "saved", None) or ():
        if value.__class__ is SavedOutput:
            _hand_over_again(aten.detach.default, (parts[value.index or 0],))


def _start_backward(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Dispatch the ones that a backward pass starts from."""
    if not STATE.modes or type(args[0]) is not Tensor:
        return original(*args, **kwargs)
    return _hand_over_again(aten.ones_like.default, args[:1], {
        "pin_memory": False, "memory_format": preserve_format})


def _drop_defaults(operator: Operator, args: tuple) -> tuple:
    """Drop trailing None arguments whose parameters default to None."""
    while args and args[-1] is None and operator.parameters[len(args) - 1].default is None:
        args = args[:-1]
    return args


def _hand_over_again(func: Any, args: tuple, kwargs: dict[str, Any] | None = None) -> Any:
    """Dispatch one of several calls into which PyTorch splits an operator."""
    kwargs = kwargs or {}
    match = _ask((*args, *kwargs.values()))
    return _hand_over(func, match, args, kwargs) if match or STATE.modes else func(*args, **kwargs)


def _call_in_place(
    operator: Operator, original: Callable, args: tuple, kwargs: dict[str, Any]
) -> Any:
    result = _ask((*args, *kwargs.values()))
    if not result and not STATE.modes:
        return original(*args, **kwargs)
    func = getattr(getattr(aten, _find_aten_name(operator) + "_"), _find_suffix(operator, args))
    if not args:
        return _hand_over(func, result, args, kwargs)
    return write_in_place(_hand_over_again, operator, func, args, kwargs)


def _overwrite(name: str, original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Dispatch a write that ignores the old value: copy_, fill_, zero_ and random draws."""
    if not STATE.modes and not _ask((*args, *kwargs.values())):
        return original(*args, **kwargs)
    kind = "default"
    if name == "fill_":
        kind = "Tensor" if isinstance(args[1], Tensor) else "Scalar"
    elif name == "bernoulli_":
        kind = "Tensor" if args[1:] and isinstance(args[1], Tensor) else "float"
    return overwrite(_hand_over_again, name, getattr(getattr(aten, name), kind), args, kwargs)


def _dispatch_short_cut(name: str, original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """If the call is dispatched, call the operator of a method with a fast path."""
    if not STATE.modes and not _ask(args):
        return original(*args, **kwargs)
    return forward_mode.SHORT_CUTS[name](original, args, kwargs, True)


def _get_item(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    if not STATE.modes and not _ask(args):
        return original(*args, **kwargs)
    x, index = args
    basic, indices = split_index(x, index)
    if not indices:
        is_number = len(basic) == 2 and basic[0].__class__ is int
        plain = basic[0] if is_number else index if index.__class__ is slice else basic
        return forward_mode.SHORT_CUTS["__getitem__"](original, (x, plain), kwargs, True)
    target = x if is_whole(basic) else OPERATORS["_slice"].function(x, basic)
    result = _hand_over_again(aten.index.Tensor, (target, indices))
    if MODE.grad and not result._requires_grad:
        record(OPERATORS["index"], result, (target, make_positions(indices)))
    return result


def _set_item(original: Callable, args: tuple, kwargs: dict[str, Any]) -> None:
    """Dispatch `x[index] = value` to the arguments' classes."""
    if not _ask(args):
        original(*args, **kwargs)
        return
    write_index(_hand_over_again, *args)


def _put_at_indices(name: str, original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    match = _ask((*args, *kwargs.values()))
    if not match:
        return original(*args, **kwargs)
    args = (args[0], list(args[1]), *args[2:]) if len(args) > 1 else args
    result = _hand_over(getattr(aten, name).default, match, args, kwargs)
    return args[0] if name == "index_put_" else result


def _dispatch_by_name(func: Any, original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Dispatch a function that is not an operator."""
    result = _ask(args)
    if not result and not STATE.modes:
        return original(*args, **kwargs)
    return _hand_over(func, result, args, kwargs)


def _detach(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Dispatch detach; the result counts writes together with its source."""
    result = _dispatch_by_name(aten.detach.default, original, args, kwargs)
    source = args[0]
    if isinstance(result, Tensor) and result is not source:
        source._bump(0)  # which creates the counter
        result._counter = source._counter
    return result


def _record_stream(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    match = _ask(args)
    if not match and not STATE.modes:
        return original(*args, **kwargs)
    return _hand_over(aten.record_stream.default, match, args, kwargs)


def _set(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Dispatch `x.set_(source)`."""
    match = _ask((*args, *kwargs.values()))
    if not match and not STATE.modes:
        return original(*args, **kwargs)
    source = args[1] if len(args) > 1 else kwargs.get("source")
    kind = "default" if source is None else \
        "source_Tensor" if isinstance(source, Tensor) else "source_Storage"
    if len(args) > 2:
        kind += "_storage_offset"
    _hand_over(getattr(aten.set_, kind), match, args, kwargs)
    return args[0]


def _dispatch_factory(name: str, original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    if not STATE.modes:
        return original(*args, **kwargs)
    needs_grad = kwargs.pop("requires_grad", False)
    kind, args, kwargs = convert_factory_call(name, args, kwargs)
    result = _hand_over(getattr(getattr(aten, name), kind), [], args, kwargs)
    return require_gradients(result) if needs_grad else result


_FACTORIES = ("arange empty eye full linspace logspace ones rand randint randn randperm "
              "zeros").split()
# Factories that take another tensor as template.
_LIKE = [("Tensor", f"new_{name}") for name in ("empty", "full", "ones", "zeros")] + [
    ("torch", f"{name}_like") for name in ("empty", "full", "ones", "rand", "randint", "randn",
                                           "zeros")
]


def _dispatch_factory_like(
    name: str, original: Callable, args: tuple, kwargs: dict[str, Any]
) -> Any:
    match = _ask((*args, *kwargs.values()))
    if not match and not STATE.modes:
        return original(*args, **kwargs)
    if name in ("new_empty", "new_ones", "new_zeros") and args[1:] and isinstance(args[1], int):
        args = (args[0], list(args[1:]))
    needs_grad = kwargs.pop("requires_grad", False)
    args = (args[0], *(list(a) if isinstance(a, tuple) else a for a in args[1:]))
    result = _hand_over(getattr(aten, name).default, match, args, complete_options(kwargs))
    return require_gradients(result) if needs_grad else result


# ------------------------------------------------------------------------------ names in aten

_WITH_TENSOR = frozenset("add sub mul div".split())
_EITHER = frozenset("eq ne lt le gt ge remainder bitwise_and bitwise_or bitwise_xor fmod".split())
_SUFFIXES = {"transpose": "int", "select": "int", "slice": "Tensor", "where": "self",
             "index": "Tensor", "unbind": "int", "max_dim": "dim", "min_dim": "dim"}


def _find_aten_name(operator: Operator) -> str:
    names = {"vector_norm": "linalg_vector_norm", "layer_norm": "native_layer_norm",
             "softmax": "_softmax",
             "log_softmax": "_log_softmax", "relu_only": "relu", "pow_number": "pow",
             "max_all": "max", "min_all": "min",
             "max_dim": "max", "min_dim": "min",
             "softmax_backward_data": "_softmax_backward_data",
             "log_softmax_backward_data": "_log_softmax_backward_data"}
    name = operator.name.strip("_")
    return names.get(name, name)


def _find_suffix(operator: Operator, args: tuple) -> str:
    name = operator.name.strip("_")
    tensors = [isinstance(a, Tensor) for a in args[:2]]
    if name in _WITH_TENSOR:
        return "Tensor"
    if name in _EITHER:
        return "Tensor" if all(tensors) else "Scalar"
    if name in ("pow", "pow_number"):
        return "Tensor_Tensor" if all(tensors) else "Tensor_Scalar" if tensors[0] else "Scalar"
    if name == "masked_fill":
        return "Tensor" if isinstance(args[2], Tensor) else "Scalar"
    if name in ("sum", "mean") and len(args) > 1 and args[1] is not None:
        return "dim_IntList" if name == "sum" else "dim"
    return _SUFFIXES.get(name, "default")


# The operators that PyTorch decomposes matmul into, by the operands' ranks.
_PRODUCTS = {(1, 1): "dot", (2, 1): "mv", (2, 2): "mm", (3, 3): "bmm"}


def _convert_to_aten_call(
    operator: Operator, args: tuple, kwargs: dict[str, Any]
) -> tuple[Any, tuple, dict[str, Any]]:
    """Return the overload that handlers receive for an operator's call, and its arguments."""
    name, first = _find_aten_name(operator), _find_suffix(operator, args)
    if name == "matmul" and len(args) > 1:
        name = _PRODUCTS.get((args[0].dim(), args[1].dim()), name)
    packet = getattr(aten, name)
    packet.fallback = operator.function  # used if no public function has this name
    if kwargs.get("out") is not None:
        return packet.out, args, kwargs
    if name not in _WITH_TENSOR:
        if (fit := match_schema(name, first, args, kwargs)) is not None:
            return getattr(packet, fit[0]), *fit[1:]
        if operator.name.startswith("_"):  # its arguments are not those of PyTorch's operator
            return getattr(own_packet(operator), first), tuple(map(seal, args)), kwargs
    return getattr(packet, first), args, kwargs


# ----------------------------------------------------------------------------------- classes


def _define(cls: Any, *arguments: Any, **options: Any) -> None:
    """Initialize a tensor class, disabling `__torch_function__` if it only dispatches."""
    type.__init__(cls, *arguments, **options)
    default = Tensor.__dict__["__torch_function__"].__func__
    if dispatches(cls) and getattr(cls.__torch_function__, "__func__", None) is default:
        cls.__torch_function__ = _disabled_torch_function_impl


_methods: Any = Tensor
type(_methods).__init__ = _define
_methods.__torch_dispatch__ = staticmethod(_disabled_torch_dispatch_impl)
INSTANTIATED.append(meet)
