"""Observers of operators, active only during close watching: values that leave the graph, views,
statistics, random draws and calls of functions that rules ask for."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...autograd.function import Function
from ...native.foundation.user_frames import is_internal
from ...nn.parameter import Parameter
from ...ops.core.operator import PUBLIC
from ...tensor.tensor import Tensor
from ..events import Statistic
from ..places import find_spot, list_callers
from . import Observer, comparisons, distributions, losses, memory, tape_records, tokens
from .calls import Call, Report, is_called_by_user, report_after, report_before

if TYPE_CHECKING:
    from ..session import Session

_FUNCTIONAL = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "normalize",
               "layer_norm", "multi_head_attention_forward", "interpolate",
               "scaled_dot_product_attention")


def iterate_targets(session: Session) -> Iterator[tuple[Any, Observer]]:
    """Yield every function to patch while watching closely, with its observer."""
    for observers in (losses, tape_records, comparisons, tokens, distributions, memory):
        yield from observers.iterate_targets(session)
    yield from _iterate_calls(session)
    yield from _iterate_cuts(session)
    for names, report in _REPORTS:
        for name in names:
            for function in _list_public(name):
                yield function, report_after(session, report, name)
    torch = PUBLIC["torch"]
    yield vars(Tensor)["__getitem__"], report_after(session, _report_index)
    yield torch["randperm"], report_after(session, _report_permutation)
    yield torch["empty"], report_after(session, _report_empty)
    for function in (torch["tensor"], vars(Tensor)["requires_grad_"]):
        if inspect.isfunction(function):
            yield function, report_after(session, _report_leaf)
    yield vars(Tensor)["data"].fset, report_after(session, _report_data_assignment)
    yield vars(Tensor)["grad"].fget, report_before(session, _report_grad_read)
    yield Parameter.__new__, report_after(session, _report_parameter)
    apply = vars(Function)["_flambeau_apply"].__func__
    yield apply, report_after(session, _report_user_function)


def _iterate_calls(session: Session) -> Iterator[tuple[Any, Observer]]:
    """Yield the functions whose calls are reported as they are."""
    functional = importlib.import_module("flambeau.nn.functional")
    functions: list[tuple[str, Callable]] = [
        *((name, getattr(functional, name)) for name in _FUNCTIONAL),
        *((name, PUBLIC["torch"][name]) for name in ("stack", "from_numpy")),
        *(("gather", function) for function in _list_public("gather")),
    ]
    for name, function in functions:
        yield function, report_before(session, _report_call, name)


def _iterate_cuts(session: Session) -> Iterator[tuple[Any, Observer]]:
    """Yield the methods whose result is not part of the graph."""
    yield vars(Tensor)["detach"], report_before(session, _report_cut, "detach()")
    yield vars(Tensor)["data"].fget, report_before(session, _report_cut, ".data")
    for name in ("item", "numpy", "tolist"):
        method = vars(Tensor).get(name)
        if inspect.isfunction(method):
            yield method, report_before(session, _report_cut, f"{name}()")


def _list_public(name: str) -> set[Any]:
    """Return the function and the method of a name that are Python functions."""
    candidates = (PUBLIC["torch"].get(name), vars(Tensor).get(name))
    return {function for function in candidates if inspect.isfunction(function)}


def _report_call(session: Session, call: Call) -> None:
    session.emit("on_function", call.name, call.args, call.kwargs, find_spot())


def _report_cut(session: Session, call: Call) -> None:
    tensor = call.get(0, "input")
    if isinstance(tensor, Tensor) and tensor._node is not None:
        session.emit("on_cut", call.name, tensor, find_spot())


def _report_leaf(session: Session, call: Call) -> None:
    """Report a new leaf that requires a gradient."""
    result = call.result
    if isinstance(result, Tensor) and result.requires_grad and result.is_leaf:
        session.emit("on_function", "leaf", (result,), call.kwargs, find_spot())


def _report_permutation(session: Session, call: Call) -> None:
    session.emit("on_function", "randperm", (call.result,), call.kwargs, find_spot())


def _report_index(session: Session, call: Call) -> None:
    """Report selections by a tensor, and of the last element of axis 1."""
    index = call.args[1]
    if isinstance(index, Tensor):
        session.emit("on_function", "getitem", (*call.args, call.result), call.kwargs, find_spot())
    elif _takes_the_last(index):
        session.emit("on_function", "last", (*call.args, call.result), call.kwargs, find_spot())


def _takes_the_last(index: Any) -> bool:
    """Return whether an index selects the last of axis 1, as in x[:, -1]."""
    return index.__class__ is tuple and len(index) > 1 and index[1].__class__ is int \
        and index[1] == -1 and index[0].__class__ is slice


def _report_user_function(session: Session, call: Call) -> None:
    """Report a call of a user's Function: the class, its arguments and its output."""
    function = call.args[0]
    code = getattr(function.forward, "__code__", None)
    if code is not None and not is_internal(code):
        session.emit("on_apply", function, call.args[1], call.result[1], find_spot())


def _report_data_assignment(session: Session, call: Call) -> None:
    session.emit("on_data_set", call.args[0], find_spot())


def _report_grad_read(session: Session, call: Call) -> None:
    if is_called_by_user():
        session.emit("on_grad_read", call.args[0])


def _report_argmax(session: Session, call: Call) -> None:
    """Report the cut, and the indices of the maxima along an axis."""
    _report_cut(session, call._replace(name="argmax()"))
    dim = call.get(1, "dim")
    if dim.__class__ is int and isinstance(call.args[0], Tensor):
        session.emit("on_best", call.args[0], dim, call.result, find_spot())


def _report_max(session: Session, call: Call) -> None:
    """Report the indices of the maxima along an axis."""
    dim = call.get(1, "dim")
    if dim.__class__ is int and isinstance(call.args[0], Tensor):
        session.emit("on_best", call.args[0], dim, call.result[1], find_spot())


def _report_move(session: Session, call: Call) -> None:
    if isinstance(call.args[0], Tensor):
        session.emit("on_moved", call.name, call.args[0], call.result, find_spot())


def _report_view(session: Session, call: Call) -> None:
    """Report views of tables by the user or by a module, but not those of a backward pass."""
    source = call.args[0]
    if isinstance(source, Tensor) and source._array.ndim > 1 \
            and (session.stack or is_called_by_user()):
        session.emit("on_view", source, call.result, find_spot())


def _report_triangle(session: Session, call: Call) -> None:
    if is_called_by_user():
        session.emit("on_triangle", call.result, find_spot())


def _report_draw(session: Session, call: Call) -> None:
    if isinstance(call.result, Tensor) and is_called_by_user():
        session.emit("on_draw", call.result, find_spot())


def _report_statistic(session: Session, call: Call) -> None:
    """Report column statistics: reductions of axis 0 of an unrecorded 2-d tensor."""
    dim = call.get(1, "dim", call.kwargs.get("axis"))
    if dim is False or dim not in (0, (0,), [0]) or session.stack:
        return
    table = call.get(0, "input")
    if isinstance(table, Tensor) and table._array.ndim == 2 and table._node is None \
            and is_called_by_user():
        session.emit("on_statistic", Statistic(len(table._array), list_callers()))


def _report_parameter(session: Session, call: Call) -> None:
    if isinstance(call.result, Tensor):
        session.emit("on_parameter", call.result, call.get(1, "data"), find_spot())


def _report_empty(session: Session, call: Call) -> None:
    if is_called_by_user():
        session.emit("on_empty", call.result)


# Names of functions and methods, and the report of their calls.
_REPORTS: tuple[tuple[tuple[str, ...], Report], ...] = (
    (("view", "reshape", "flatten"), _report_view),
    (("argmax",), _report_argmax),
    (("max",), _report_max),
    (("flip", "fliplr", "flipud", "rot90", "roll"), _report_move),
    (("randn", "rand", "randint", "randn_like", "rand_like", "randint_like", "normal",
      "bernoulli"), _report_draw),
    (("triu", "tril"), _report_triangle),
    (("mean", "std", "var", "std_mean", "var_mean", "amin", "amax"), _report_statistic),
)
