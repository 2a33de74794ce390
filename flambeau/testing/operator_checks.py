"""torch.library.opcheck: check a custom operator against its registrations.

Each check runs the operator on sample arguments and compares what it writes and returns with its
schema, its fake kernel with its real one, or a compiled call with an eager one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd import grad as gradients_of
from ..autograd.mode import no_grad
from ..ops.registration.custom_operators import AUTOGRAD_KEYS, CustomOperator, CustomPacket
from ..tensor.tensor import Tensor
from ..tensor.tree import collect_leaves
from ..utils._pytree import tree_map
from ._comparison import assert_close

DEFAULT_CHECKS = (
    "test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic",
)


class OpCheckError(Exception):
    """A failed check of `opcheck`."""


def opcheck(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *,
    test_utils: str | Sequence[str] = DEFAULT_CHECKS, raise_exception: bool = True,
    atol: float | None = None, rtol: float | None = None,
) -> dict[str, Any]:
    """Check a custom operator on sample arguments; return "SUCCESS" or the error of each check.

    Args:
        op: The result of `custom_op`, or an operator of torch.ops.
        args: The arguments of a call. Tensors that require grad have their gradients checked.
        test_utils: The names of the checks to run.
        raise_exception: Whether the first failure raises OpCheckError.
        atol: The absolute tolerance of gradients and results; None for the dtype's.
        rtol: The relative tolerance.

    >>> @torch.library.custom_op("docs::negated", mutates_args=())
    ... def negated(x: torch.Tensor) -> torch.Tensor:
    ...     return -x
    >>> torch.library.opcheck(negated, (torch.ones(2),), test_utils="test_schema")
    {'test_schema': 'SUCCESS'}
    """
    operator = _overload_of(op)
    names = (test_utils,) if isinstance(test_utils, str) else test_utils
    if not isinstance(names, (tuple, list)) or not set(names) <= _CHECKS.keys():
        raise ValueError(f"opcheck(op, ..., test_utils={names}), expected test_utils to be "
                         f"subset of {tuple(_CHECKS)} but it was not")
    results: dict[str, Any] = {}
    compare = functools.partial(assert_close, atol=atol, rtol=rtol, equal_nan=True)
    for name in names:
        try:
            _CHECKS[name](operator, args, kwargs or {}, compare)
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error} (scroll up for "
                                   "stack trace)") from error
            results[name] = error
    return results


def _overload_of(op: Any) -> CustomOperator:
    operator = getattr(op, "_opoverload", op)
    if isinstance(operator, CustomPacket):
        if len(operator.overloads()) != 1:
            raise RuntimeError(
                "opcheck can only test operators without overloads. Got the following overloads "
                f"for {operator}: {operator.overloads()}")
        operator = getattr(operator, operator.overloads()[0])
    if not isinstance(operator, CustomOperator):
        raise ValueError("opcheck(op, ...): op must be instance of torch._ops.OpOverload. e.g. "
                         f"torch.ops.aten.sin.default, got {type(op)}")
    return operator


def _copied(values: Any) -> Any:
    """Copy the arguments, tensors as new leaves, so that checks cannot change the caller's."""
    def copy(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        return x.detach().clone().requires_grad_(x.requires_grad)

    return tree_map(copy, values)


def _check_schema(
    operator: CustomOperator, args: tuple, kwargs: dict, compare: Callable
) -> None:
    """Raise RuntimeError if an argument is mutated or returned against the schema."""
    args, kwargs = operator._schema.bind(*_copied((args, kwargs)))
    declared = operator._schema.arguments
    values = {a.name: v for a, v in zip([a for a in declared if not a.kwarg_only], args,
                                        strict=True)} | kwargs
    with no_grad():
        originals = _copied(values)
        outputs = collect_leaves(Tensor, operator(*args, **kwargs))
    for argument in declared:
        tensors = collect_leaves(Tensor, values[argument.name])
        olds = collect_leaves(Tensor, originals[argument.name])
        if argument.is_written:
            continue
        if any(not _same(x, old) for x, old in zip(tensors, olds, strict=True)):
            raise RuntimeError(f"Argument {argument.name} is not defined as mutable but was "
                               "mutated")
        for x in tensors:
            if any(_shares_memory(x, y) for y in outputs) and argument.alias_info is None:
                raise RuntimeError(f"Argument {argument.name} is not defined to alias output but "
                                   "was aliasing")


def _same(x: Tensor, old: Tensor) -> bool:
    return x.shape == old.shape and x.dtype is old.dtype \
        and bool(((x == old) | ((x != x) & (old != old))).all())


def _shares_memory(x: Tensor, y: Tensor) -> bool:
    return x.numel() > 0 and y.numel() > 0 \
        and x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


def _check_autograd(
    operator: CustomOperator, args: tuple, kwargs: dict, compare: Callable
) -> None:
    """Raise AssertionError if a kernel below autograd returns a tensor that requires grad."""
    args, kwargs = _copied((args, kwargs))
    if not any(x.requires_grad for x in collect_leaves(Tensor, (args, kwargs))):
        return
    if operator.opaque or operator.backward is not None \
            or any(key in operator.kernels for key in AUTOGRAD_KEYS):
        return
    outputs = collect_leaves(Tensor, operator(*args, **kwargs))
    if any(y.requires_grad for y in outputs) \
            and "CompositeImplicitAutograd" not in operator.kernels:
        raise AssertionError(
            f"{operator.name()}: at least one output of this operator has requires_grad=True but "
            "the operator does not have an autograd kernel defined at an autograd key (e.g. "
            "DispatchKey::Autograd). This could mean that you have incorrectly registered an "
            "autograd kernel to a non-Autograd DispatchKey, which may lead to silently incorrect "
            "results. If your operator consists of regular PyTorch operations, consider not using "
            "an operator at all or registering your operator as CompositeImplicitAutograd.")


def _check_fake(
    operator: CustomOperator, args: tuple, kwargs: dict, compare: Callable
) -> None:
    """Raise AssertionError if the fake kernel's shapes or dtypes differ from the real one's.
    Strides are not compared: meta tensors have none."""
    args, kwargs = _copied((args, kwargs))
    with no_grad():
        fakes = collect_leaves(Tensor,
                               operator(*tree_map(_as_meta, args), **tree_map(_as_meta, kwargs)))
        outputs = collect_leaves(Tensor, operator(*args, **kwargs))
    if len(fakes) != len(outputs):
        raise AssertionError(f"the fake kernel returns {len(fakes)} tensors, the operator "
                             f"{len(outputs)}")
    for fake, y in zip(fakes, outputs, strict=True):
        if fake.shape != y.shape:
            raise AssertionError(f"Shapes {tuple(fake.shape)} and {tuple(y.shape)} are not equal!")
        if fake.dtype is not y.dtype:
            raise AssertionError(f"Dtypes {fake.dtype} and {y.dtype} are not equal!")


def _as_meta(x: Any) -> Any:
    return x.detach().to("meta") if isinstance(x, Tensor) else x


def _check_compiled(
    operator: CustomOperator, args: tuple, kwargs: dict, compare: Callable
) -> None:
    """Raise AssertionError if a compiled call's results or gradients differ from an eager one's."""
    from ..compiler import compile

    def call(args: tuple, kwargs: dict) -> Any:
        return operator(*args, **kwargs)

    eager = _run(call, *_copied((args, kwargs)))
    compiled = compile(call, mode="now")
    for _ in range(2):
        result = _run(compiled, *_copied((args, kwargs)))
        for aspect, x, y in zip(("results", "gradients", "arguments"), result, eager, strict=True):
            compare(x, y, msg=lambda text, aspect=aspect: f"{aspect} of the operator are different "
                    f"under eager-mode PyTorch vs a compiled call: {text}")


def _run(call: Callable, args: tuple, kwargs: dict) -> tuple[list, list, list]:
    """Return the results, the gradients of their sum, and the arguments after the call."""
    leaves = collect_leaves(Tensor, (args, kwargs))
    outputs = collect_leaves(Tensor, call(args, kwargs))
    differentiable = [x for x in leaves if x.requires_grad]
    smooth = [y for y in outputs if y.requires_grad]
    gradients: list[Any] = []
    if differentiable and smooth:
        computed = gradients_of(sum(y.sum().abs() for y in smooth), differentiable,
                                allow_unused=True)
        gradients = [x.new_zeros(x.shape) if g is None else g.detach()
                     for x, g in zip(differentiable, computed, strict=True)]
    return [y.detach() for y in outputs], gradients, [x.detach() for x in leaves]


_CHECKS: dict[str, Callable] = {
    "test_schema": _check_schema, "test_autograd_registration": _check_autograd,
    "test_faketensor": _check_fake, "test_aot_dispatch_static": _check_compiled,
    "test_aot_dispatch_dynamic": _check_compiled,
}
