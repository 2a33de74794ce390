"""Observers of operators, active only during close watching: the line of every recorded node, loss
calls, values that leave the graph, reshapes and comparisons."""

from __future__ import annotations

import importlib
import inspect
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...autograd import tape
from ...autograd.function import Function
from ...autograd.mode import MODE
from ...native.foundation.user_frames import is_internal
from ...nn.parameter import Parameter
from ...ops.core.operator import PUBLIC
from ...tensor.tensor import Tensor
from ..events import LossCall, Statistic
from ..places import find_spot, list_callers
from . import Observer, distributions, memory, tokens

if TYPE_CHECKING:
    from ..session import Session

LOSSES = (
    "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "gaussian_nll_loss",
    "poisson_nll_loss", "soft_margin_loss", "hinge_embedding_loss", "multilabel_soft_margin_loss",
    "multi_margin_loss", "ctc_loss", "cosine_embedding_loss", "margin_ranking_loss",
    "triplet_margin_loss", "triplet_margin_with_distance_loss",
)
_FIRST = {"ctc_loss": "log_probs", "cosine_embedding_loss": "input1",
          "margin_ranking_loss": "input1", "triplet_margin_loss": "anchor",
          "triplet_margin_with_distance_loss": "anchor"}
_TARGET = {"ctc_loss": "targets", "triplet_margin_loss": "positive",
           "triplet_margin_with_distance_loss": "positive"}
_DRAWS = ("randn", "rand", "randint", "randn_like", "rand_like", "randint_like", "normal",
          "bernoulli")
_FLIPS = ("flip", "fliplr", "flipud", "rot90", "roll")
_FUNCTIONS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "normalize",
              "layer_norm", "multi_head_attention_forward", "interpolate",
              "scaled_dot_product_attention")
_RESHAPES = ("view", "reshape", "flatten")
_STATISTICS = ("mean", "std", "var", "std_mean", "var_mean", "amin", "amax")
_HEAVY_S = 0.6e-6  # cost of a patch per call, besides the time that the observer measures


def iterate_targets(session: Session) -> Iterator[tuple[Any, Observer]]:
    """Yield every function to patch while watching closely, with its observer."""
    functional = importlib.import_module("flambeau.nn.functional")
    for name in LOSSES:
        function = getattr(functional, name, None)
        if function is not None:
            yield function, _observe_loss(session, name, inspect.signature(function))
    for name in _FUNCTIONS:
        yield getattr(functional, name), _observe_function(session, name)
    for function in {vars(Tensor)["__getitem__"], PUBLIC["torch"]["randperm"]}:
        yield function, _observe_result(session, getattr(function, "__name__", "").strip("_"))
    for name in ("stack", "from_numpy"):
        yield PUBLIC["torch"][name], _observe_function(session, name)
    yield from (
        (function, _observe_function(session, "gather")) for function in _list_public("gather")
    )
    for function in (PUBLIC["torch"]["tensor"], vars(Tensor)["requires_grad_"]):
        if inspect.isfunction(function):
            yield function, _observe_leaf(session)
    for recorder in (tape.record_unary, tape.record_binary, tape.record_number, tape.record):
        yield recorder, _create_recorder(session, recorder is tape.record_binary)
    yield vars(Tensor)["detach"], _cut(session, "detach()")
    for conversion in ("item", "numpy", "tolist"):
        function = vars(Tensor).get(conversion)
        if inspect.isfunction(function):
            yield function, _cut(session, f"{conversion}()")
    yield vars(Tensor)["data"].fget, _cut(session, ".data")
    yield vars(Tensor)["data"].fset, _observe_data_assignment(session)
    yield vars(Tensor)["grad"].fget, _observe_grad_read(session)
    for names, observer in _BY_NAME:
        for name in names:
            yield from ((function, observer(session, name)) for function in _list_public(name))
    yield from _observe_comparisons(session)
    if inspect.isfunction(vars(Tensor)["__sub__"]):
        yield vars(Tensor)["__sub__"], _observe_difference(session)
    yield functional.embedding, tokens.look_up(session, functional.embedding)
    yield Parameter.__new__, _observe_parameter(session)
    yield PUBLIC["torch"]["empty"], _observe_empty(session)
    yield vars(Function)["_flambeau_apply"].__func__, _apply(session)
    yield from distributions.iterate_targets(session)
    yield from memory.iterate_targets(session)


def _list_public(name: str) -> set[Any]:
    """Return the function and the method of a name that are Python functions."""
    candidates = (PUBLIC["torch"].get(name), vars(Tensor).get(name))
    return {function for function in candidates if inspect.isfunction(function)}


def _observe_comparisons(session: Session) -> Iterator[tuple[Any, Observer]]:
    methods = vars(Tensor)
    for function in {methods["__eq__"], PUBLIC["torch"]["eq"], methods["eq"]}:
        if inspect.isfunction(function):
            yield function, _compare(session)
    for function in {methods["__ne__"], PUBLIC["torch"]["ne"], methods["ne"]}:
        if inspect.isfunction(function):
            yield function, _mask(session)
    greater = {methods["__gt__"], methods["__ge__"], PUBLIC["torch"]["gt"], PUBLIC["torch"]["ge"],
               methods["gt"], methods["ge"]}
    for function in greater:
        if inspect.isfunction(function):
            yield function, _observe_threshold(session)


def _create_recorder(session: Session, is_binary: bool) -> Observer:
    """Record the line and the innermost module of each node that an operator adds to the tape."""
    clock, stack = session.clock, session.stack

    def record(original: Callable, args: tuple, kwargs: dict) -> Any:
        original(*args, **kwargs)
        if session.busy:
            return
        start_s = time.perf_counter()
        result = args[1]
        if result.__class__ is tuple or result.__class__ is list:
            result = result[0] if result else None
        node = getattr(result, "_node", None)
        if node is not None:
            node = getattr(node, "node", node)
            if "_doctor_spot" not in node.__dict__:
                module = stack[-1] if stack else None
                node.__dict__["_doctor_spot"] = find_spot(), module, session.call_spot
        clock.spent_s += time.perf_counter() - start_s + _HEAVY_S
        if not is_binary or node is None:
            return
        a, b = args[2], args[3]
        if result._array.size > max(a._array.size, b._array.size):
            session.emit("on_broadcast", args[0].name, a, b, find_spot())
        if a._node is None and not a.requires_grad:
            a, b = b, a
        if b._node is None and not b.requires_grad and a._node is not None:
            if b._array.ndim:
                session.emit("on_operand", args[0].name, a, b, find_spot())
            elif args[0].name in ("_add", "_sub"):
                session.emit("on_addend", b, find_spot())

    return record


def _observe_difference(session: Session) -> Observer:
    """Report unrecorded differences that are larger than both operands."""

    def subtract(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        if session.busy or len(args) < 2 or args[1].__class__ is not Tensor:
            return result
        if isinstance(result, Tensor) and result._node is None \
                and result._array.size > max(args[0]._array.size, args[1]._array.size):
            session.emit("on_spread", args[0], args[1], find_spot())
        return result

    return subtract


def _observe_loss(session: Session, name: str, signature: inspect.Signature) -> Observer:
    names = list(signature.parameters)
    input_name, target_name = _FIRST.get(name, "input"), _TARGET.get(name, "target")

    def loss(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        if session.busy:
            return result
        arguments = {**dict(zip(names, args, strict=False)), **kwargs}
        value = arguments.get(input_name)
        if isinstance(value, Tensor):
            call = LossCall(name, value, arguments.get(target_name), arguments, result, find_spot(),
                            session.stack[-1] if session.stack else None, MODE.grad)
            session.emit("on_loss", call)
        return result

    return loss


def _observe_function(session: Session, name: str) -> Observer:
    def call(original: Callable, args: tuple, kwargs: dict) -> Any:
        if not session.busy:
            session.emit("on_function", name, args, kwargs, find_spot())
        return original(*args, **kwargs)

    return call


def _observe_leaf(session: Session) -> Observer:
    """Report new leaves that require a gradient."""

    def make(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        if not session.busy and isinstance(result, Tensor) and result.requires_grad \
                and result.is_leaf:
            session.emit("on_function", "leaf", (result,), kwargs, find_spot())
        return result

    return make


def _observe_result(session: Session, name: str) -> Observer:
    """Report a call with its result as the last argument."""
    name = "randperm" if "randperm" in name else "getitem"

    def call(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        if not session.busy and (name == "randperm" or isinstance(args[1], Tensor)):
            session.emit("on_function", name, (result,) if name == "randperm" else (*args, result),
                         kwargs, find_spot())
        elif not session.busy and _takes_the_last(args[1]):
            session.emit("on_function", "last", (*args, result), kwargs, find_spot())
        return result

    return call


def _takes_the_last(index: Any) -> bool:
    """Return whether an index selects the last of axis 1, as in x[:, -1]."""
    return index.__class__ is tuple and len(index) > 1 and index[1].__class__ is int \
        and index[1] == -1 and index[0].__class__ is slice


def _cut(session: Session, kind: str) -> Observer:
    def cut(original: Callable, args: tuple, kwargs: dict) -> Any:
        tensor = args[0] if args else kwargs.get("input")
        if not session.busy and isinstance(tensor, Tensor) and tensor._node is not None:
            session.emit("on_cut", kind, tensor, find_spot())
        return original(*args, **kwargs)

    return cut


def _apply(session: Session) -> Observer:
    """Report a call of a user's Function: the class, its arguments and its output."""

    def apply(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        code = getattr(args[0].forward, "__code__", None)
        if not session.busy and code is not None and not is_internal(code):
            session.emit("on_apply", args[0], args[1], result[1], find_spot())
        return result

    return apply


def _observe_data_assignment(session: Session) -> Observer:
    def assign(original: Callable, args: tuple, kwargs: dict) -> Any:
        original(*args, **kwargs)
        if not session.busy:
            session.emit("on_data_set", args[0], find_spot())

    return assign


def _observe_best(session: Session, name: str) -> Observer:
    """Report argmax, or max along an axis: both yield the index of the maximum."""
    cut = _cut(session, "argmax()") if name == "argmax" else _call_plainly

    def best(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = cut(original, args, kwargs)
        dim = args[1] if len(args) > 1 else kwargs.get("dim")
        if not session.busy and dim.__class__ is int and isinstance(args[0], Tensor):
            indices = result if name == "argmax" else result[1]
            session.emit("on_best", args[0], dim, indices, find_spot())
        return result

    return best


def _call_plainly(original: Callable, args: tuple, kwargs: dict) -> Any:
    return original(*args, **kwargs)


def _observe_map(session: Session, name: str) -> Observer:
    def call(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        if not session.busy and isinstance(args[0], Tensor):
            session.emit("on_moved", name, args[0], result, find_spot())
        return result

    return call


def _observe_triangle(session: Session, name: str) -> Observer:
    def cut(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        if not session.busy and not is_internal(sys._getframe(2).f_code):
            session.emit("on_triangle", result, find_spot())
        return result

    return cut


def _observe_statistic(session: Session, name: str) -> Observer:
    """Report column statistics: reductions of axis 0 of an unrecorded 2-d tensor."""

    def reduce(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        dim = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis"))
        if dim in (0, (0,), [0]) and dim is not False and not session.busy and not session.stack:
            table = args[0] if args else kwargs.get("input")
            if isinstance(table, Tensor) and table._array.ndim == 2 and table._node is None \
                    and not is_internal(sys._getframe(2).f_code):
                session.emit("on_statistic", Statistic(len(table._array), list_callers()))
        return result

    return reduce


def _draw(session: Session, name: str) -> Observer:
    def draw(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        if not session.busy and isinstance(result, Tensor) \
                and not is_internal(sys._getframe(2).f_code):
            session.emit("on_draw", result, find_spot())
        return result

    return draw


def _observe_grad_read(session: Session) -> Observer:
    def read(original: Callable, args: tuple, kwargs: dict) -> Any:
        if not session.busy and not is_internal(sys._getframe(2).f_code):
            session.emit("on_grad_read", args[0])
        return original(*args, **kwargs)

    return read


def _observe_view(session: Session, name: str) -> Observer:
    def view(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        if not session.busy and isinstance(args[0], Tensor) and args[0]._array.ndim > 1 and (
            session.stack or not is_internal(sys._getframe(2).f_code)  # a backward pass
        ):
            session.emit("on_view", args[0], result, find_spot())
        return result

    return view


def _compare(session: Session) -> Observer:
    def compare(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        if not session.busy and len(args) > 1 and isinstance(args[1], Tensor) \
                and isinstance(args[0], Tensor):
            session.emit("on_compare", args[0], args[1], result, find_spot())
        elif not session.busy and len(args) > 1 and args[1].__class__ is int:
            session.emit("on_mask", result, find_spot())
        return result

    return compare


def _mask(session: Session) -> Observer:
    def compare(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        if not session.busy and len(args) > 1 and args[1].__class__ is int:
            session.emit("on_mask", result, find_spot())
        return result

    return compare


def _observe_threshold(session: Session) -> Observer:
    def compare(original: Callable, args: tuple, kwargs: dict) -> Any:
        if not session.busy and len(args) > 1 and args[1].__class__ in (int, float) \
                and isinstance(args[0], Tensor):
            session.emit("on_threshold", args[0], args[1], find_spot())
        return original(*args, **kwargs)

    return compare


_BY_NAME: tuple[tuple[tuple[str, ...], Callable[[Session, str], Observer]], ...] = (
    (_RESHAPES, _observe_view), (("argmax", "max"), _observe_best), (_FLIPS, _observe_map),
    (_DRAWS, _draw),
    (("triu", "tril"), _observe_triangle), (_STATISTICS, _observe_statistic),
)

def _observe_parameter(session: Session) -> Observer:
    def make(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        if not session.busy and isinstance(result, Tensor):
            source = args[1] if len(args) > 1 else kwargs.get("data")
            session.emit("on_parameter", result, source, find_spot())
        return result

    return make


def _observe_empty(session: Session) -> Observer:
    def make(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        if not session.busy and not is_internal(sys._getframe(2).f_code):
            session.emit("on_empty", result)
        return result

    return make
