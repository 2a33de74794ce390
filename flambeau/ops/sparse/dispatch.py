"""Dispatch operators on sparse tensors to their implementations, with gradients.

`SPARSE` maps public names to functions. Methods and Python operators of a sparse tensor resolve on
its class. A dense function that meets a sparse argument fails on its window and is then redirected
(`Overriding`). Composites, and functions that would not fail, get stubs when the first sparse
tensor is created.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ...autograd.inplace import bump, check_writable
from ...autograd.mode import MODE
from ...autograd.tangents import LEVELS
from ...autograd.tape import record
from ...tensor.layout import sparse_coo
from ...tensor.promotion import check_cast
from ...tensor.sparse import Created, SparseArray, SparseTensor, layout_name, wrap_any
from ...tensor.tensor import Tensor
from ..core.errors import MISSING, Overriding
from ..core.inplace import adopt
from ..core.operator import OPERATORS, Kind, Operator
from ..core.registry import Declared
from ..interception import forward_mode, window_stubs
from ..interception.torch_function import _disabled_torch_function_impl
from .meta_device import compute_on_meta, find_meta

# Implementations for calls with a sparse argument, by public name such as "add" or "add_".
SPARSE: dict[str, Callable] = {}
_methods: Any = SparseTensor
_methods.__torch_function__ = _disabled_torch_function_impl


def implements(*names: str) -> Callable[[Callable], Callable]:
    """Register a function of tensors under public names; methods of those names call it."""

    def decorate(function: Callable) -> Callable:
        for name in names:
            SPARSE[name] = function
            if name not in _NO_METHODS:
                setattr(SparseTensor, name, _copy_as_method(function, name))
        return function

    return decorate


implements_each = functools.partial(window_stubs.implement_each, implements)


def _copy_as_method(function: Callable, name: str) -> Callable:
    """Copy the function under another name, since it may implement several methods."""
    if not isinstance(function, FunctionType):
        return function
    result = FunctionType(
        function.__code__, function.__globals__, name, function.__defaults__, function.__closure__
    )
    result.__kwdefaults__, result.__doc__ = function.__kwdefaults__, function.__doc__
    result.__dict__.update(function.__dict__)
    return result


def sparse_operator(
    *names: str, like: str | None = None, node: str | None = None, linear_in: str = ""
) -> Callable[[Callable], Declared]:
    """Declare an operator on sparse arrays: a body on arrays, dense and sparse, and its vjps.

    `names`: the public names it implements. `like`: the dense operator whose vjps and node it
    shares, if they also hold for sparse cotangents. `linear_in`: as for dense operators.
    """

    def decorate(body: Callable) -> Any:
        options: dict[str, Any] = {"linear_in": linear_in}
        if node is not None:
            options["node"] = node
        operator = Operator(body.__name__, Kind.OPAQUE, body, options)
        if like is not None:
            _adopt_vjps(operator, OPERATORS[like])
        function = _create_function(operator)
        operator.function = function
        if names:
            implements(*names)(function)
        return function

    return decorate


def _adopt_vjps(operator: Operator, dense: Operator) -> None:
    operator.node_type = type(
        dense.node_type.__name__, dense.node_type.__mro__[1:2],
        {"operator": operator, "__slots__": (), "__module__": "builtins"},
    )
    operator.differentiable = dense.differentiable
    operator.holomorphic = dense.holomorphic
    if dense.joint is not None:
        operator.joint = dense.joint
    for name, vjp in dense.vjps.items():
        if name in operator.tensor_names:
            operator.vjps[name] = vjp


def _create_function(operator: Operator) -> Any:
    body, signature = operator.body, inspect.signature(operator.body)
    positions, sequences = operator.tensor_positions, operator.sequence_positions
    parameters = operator.parameters

    def function(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Any:
        if LEVELS.active and LEVELS.enabled and out is None \
                and forward_mode.find_call_level((*args, *kwargs.values())) is not None:
            _check_tangent_rule(operator)
            return forward_mode.push(operator, False, function, args, kwargs)
        if Created.used is not None:
            Created.used()
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        values = list(bound.arguments.values())
        arrays = list(values)
        for i in positions:
            arrays[i] = [v._array for v in values[i]] if i in sequences else \
                values[i]._array if isinstance(values[i], Tensor) else values[i]
        options = {p.name: a for p, a in zip(parameters, arrays, strict=True)
                   if p.kind is p.KEYWORD_ONLY}
        positional = arrays[: len(arrays) - len(options)]
        on_meta = find_meta(arrays)
        y = body(*positional, **options) if on_meta is None else \
            compute_on_meta(operator.name, body, on_meta, positional, options)
        result: Any = tuple(map(wrap_any, y)) if y.__class__ is tuple else wrap_any(y)
        if MODE.grad and operator.differentiable:
            record(operator, result, tuple(values))
        return result if out is None else write_over(out, result)

    function.__name__, function.__doc__ = operator.name, operator.body.__doc__
    declared: Any = function
    declared.operator, declared.vjp = operator, operator.declare_vjp
    declared.jvp = operator.declare_jvp
    return function


def _check_tangent_rule(operator: Operator) -> None:
    """Raise NotImplementedError if there is no jvp rule: sparse vjps cannot be transposed."""
    if operator.differentiable and operator.jvp is None and not operator.linear_in:
        raise NotImplementedError(
            f"Trying to use forward AD with {operator.name.strip('_')} on sparse tensors that does "
            "not support it because it has not been implemented yet.")


def write_over(self: Tensor, y: Tensor) -> Tensor:
    """Write a result into a tensor in place, with its history."""
    check_writable(self, "out")
    if isinstance(self, SparseTensor) == isinstance(y, SparseTensor):
        if y._array.dtype != self._array.dtype:
            check_cast(y.dtype, self.dtype)
            y = y.to(self.dtype)
        return _replace(self, y)
    raise RuntimeError(f"Expected out tensor to have {layout_name(y.layout)} layout, but got "
                       f"{layout_name(self.layout)} layout")


def _replace(self: Tensor, y: Tensor) -> Tensor:
    if not isinstance(self, SparseTensor) and self._array.shape == y._array.shape:
        self._array[...] = y._array
    else:
        self._array = y._array
    bump(self)
    adopt(self, y)
    return self


def register_in_place(name: str, coalesced: bool = False) -> None:
    """Register `name_`: the implementation of `name`, put into its first argument.

    `coalesced`: whether to raise RuntimeError for an uncoalesced tensor.
    """
    function = SPARSE[name]

    def twin(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if coalesced and not getattr(self._array, "coalesced", True):
            raise RuntimeError(f"{name}_ requires coalesced input")
        check_writable(self, name + "_")
        old = self
        if MODE.grad and self._requires_grad:
            old = self._alias()
            old._requires_grad, old._tracked, old._node = True, True, self._history()
        y = function(old, *args, **kwargs)
        if y._array.dtype != self._array.dtype:
            check_cast(y.dtype, self.dtype)
            y = y.to(self.dtype)
        return _replace(self, y)

    twin.__name__ = name + "_"
    implements(name + "_")(twin)


# ------------------------------------------------------------------------------ handing over


def is_sparse_call(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Test whether the arguments, or lists among them, contain a sparse tensor."""
    for value in (*args, *kwargs.values()):
        if value.__class__ is SparseTensor or isinstance(value, SparseTensor):
            return True
        if value.__class__ in (list, tuple) and any(isinstance(v, SparseTensor) for v in value):
            return True
    return False


def hand_over(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Return the sparse implementation's result. Raises NotImplementedError without one."""
    function = SPARSE.get(name)
    if function is None:
        refuse(name, args)
    return function(*args, **kwargs)  # type: ignore[misc]


def refuse(name: str, args: tuple) -> Any:
    """Raise NotImplementedError, with PyTorch's message."""
    arrays: list[Any] = [v._array for v in args if isinstance(v, SparseTensor)]
    arrays.sort(key=lambda a: a.layout is sparse_coo)  # compressed ones first
    backend = arrays[0].backend if arrays else "SparseCPU"
    raise NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the '{backend}' backend. This could be "
        "because the operator doesn't exist for this backend, or was omitted during the "
        "selective/custom build process (if using custom build)."
    )


def _answer(operator: Operator, args: tuple) -> Any:
    if not is_sparse_call(args, {}):
        return MISSING
    name = _PUBLIC_NAMES.get(operator.name, operator.name.lstrip("_"))
    options = {p.name: a for p, a in zip(operator.parameters, args, strict=False)
               if p.kind is p.KEYWORD_ONLY}
    return hand_over(name, args[: len(args) - len(options)], options)


def _write_into(out: Any, answer: Any) -> Any:
    return write_over(out, answer) if isinstance(answer, Tensor) else answer


# Public names of operators whose own name differs.
_PUBLIC_NAMES = {"_div": "div", "relu_only": "relu", "torch.embedding": "embedding",
                 "max_all": "max", "min_all": "min", "squeeze_dims": "as_strided"}
# Public functions that are not methods.
_NO_METHODS = frozenset("cat concat concatenate stack hspmm".split())


def _install_stubs() -> None:
    """Install stubs on composites and on functions that do not fail on sparse arrays."""
    Overriding.answers.insert(0, _answer)
    Overriding.into = _write_into
    window_stubs.install(window_stubs.TensorKind("sparse", is_sparse_call), SPARSE, _needs_stub)


def _needs_stub(function: Any, name: str) -> bool:
    """Return whether a function would not fail on sparse arrays. Python's operators need none."""
    operator = getattr(function, "operator", None)
    fails = operator is not None and operator.kind is not Kind.COMPOSITE \
        and operator.function is function and name not in _DO_NOT_FAIL
    return not fails and not name.startswith("__")


# Operators that read only shape and dtype, so sparse arrays do not make them fail.
_DO_NOT_FAIL = frozenset(("is_same_size",))


def get_array(x: Any) -> Any:
    """Return a tensor's array; return a number unchanged."""
    return x._array if isinstance(x, Tensor) else x


def is_sparse_array(x: Any) -> bool:
    """Return whether an operand of a body is sparse."""
    return isinstance(x, SparseArray)


Created.first = _install_stubs
