"""torch.library.opcheck: check a custom operator against its registrations.

Each check runs the operator on sample arguments and compares what it writes and returns with its
schema, its fake kernel with its real one, or a compiled call with an eager one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .._subclasses.fake_tensor import DynamicOutputShapeException, is_fake
from ..autograd import grad as gradients_of
from ..autograd.mode import no_grad
from ..ops.registration.custom_operators import AUTOGRAD_KEYS, CustomOperator
from ..ops.registration.entry_types import OpOverload, OpOverloadPacket
from ..ops.registration.fake_sizes import dynamic_sizes
from ..ops.registration.tags import Tag
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
        test_utils: The names of the checks to run, or "ALL".
        raise_exception: Whether the first failure raises OpCheckError.
        atol: The absolute tolerance of gradients and results; None for the dtype's.
        rtol: The relative tolerance.

    >>> @torch.library.custom_op("docs::negated", mutates_args=())
    ... def negated(x: torch.Tensor) -> torch.Tensor:
    ...     return -x
    >>> torch.library.opcheck(negated, (torch.ones(2),), test_utils="test_schema")
    {'test_schema': 'SUCCESS'}
    """
    if (rtol is None) ^ (atol is None):
        raise ValueError("opcheck(op, ...): if you specify one of rtol/atol, you must specify both")
    operator = find_overload(op)
    names = tuple(CHECKS) if test_utils == "ALL" else test_utils
    names = (names,) if isinstance(names, str) else names
    if not isinstance(names, (tuple, list)) or not set(names) <= CHECKS.keys():
        raise ValueError(f"opcheck(op, ..., test_utils={names}), expected test_utils to be "
                         f"subset of {tuple(CHECKS)} but it was not")
    results: dict[str, Any] = {}
    compare = functools.partial(assert_close, atol=atol, rtol=rtol, equal_nan=True)
    for name in names:
        try:
            run_check(name, operator, args, kwargs or {}, compare)
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error} (scroll up for "
                                   "stack trace)") from error
            results[name] = error
    return results


def run_check(
    name: str, operator: Any, args: tuple, kwargs: dict[str, Any],
    compare: Callable = assert_close,
) -> None:
    """Run one check of `opcheck` on copies of the arguments. Arguments without values, on the meta
    device or fake, are not checked."""
    if not any(x.is_meta or is_fake(x) for x in collect_leaves(Tensor, (args, kwargs))):
        CHECKS[name](operator, args, kwargs, compare)


def find_overload(op: Any) -> Any:
    """Return the overload of an operator that has no other one, or that is one.

    Raises RuntimeError if there are several, and ValueError for anything else.
    """
    operator = getattr(op, "_opoverload", op)
    if isinstance(operator, OpOverloadPacket):
        packet: Any = operator
        if len(packet.overloads()) != 1:
            raise RuntimeError(
                "opcheck can only test operators without overloads. Got the following overloads "
                f"for {str(packet).replace('.', '::')}: "
                f"{['' if name == 'default' else name for name in packet.overloads()]}")
        operator = getattr(packet, packet.overloads()[0])
    if not isinstance(operator, OpOverload):
        raise ValueError("opcheck(op, ...): op must be instance of torch._ops.OpOverload, e.g. "
                         f"torch.ops.aten.sin.default, got {type(op)}")
    return operator


def _copied(values: Any) -> Any:
    """Copy the arguments, tensors as new leaves, so that checks cannot change the caller's."""
    def copy(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        return x.detach().clone().requires_grad_(x.requires_grad)

    return tree_map(copy, values)


def _is_builtin(operator: Any) -> bool:
    """Return whether an operator is PyTorch's own: its registrations are not the user's."""
    return not isinstance(operator, CustomOperator)


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
    if _is_builtin(operator) \
            or not any(x.requires_grad for x in collect_leaves(Tensor, (args, kwargs))):
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

    Sizes that depend on values are not compared: those that follow the ones that `get_ctx` gives
    out. Strides are not compared either: meta tensors have none.
    """
    if _is_builtin(operator):
        return
    args, kwargs = _copied((args, kwargs))
    fakes, others = (_run_fake(operator, args, kwargs, run) for run in (0, 1))
    with no_grad():
        outputs = collect_leaves(Tensor, operator(*args, **kwargs))
    if len(fakes) != len(outputs):
        raise AssertionError(f"the fake kernel returns {len(fakes)} tensors, the operator "
                             f"{len(outputs)}")
    for fake, other, y in zip(fakes, others, outputs, strict=True):
        is_like = fake.dim() == y.dim() and all(
            n == size for n, m, size in zip(fake.shape, other.shape, y.shape, strict=True)
            if n == m)
        if not is_like:
            raise AssertionError(f"Shapes {tuple(fake.shape)} and {tuple(y.shape)} are not equal!")
        if fake.dtype is not y.dtype:
            raise AssertionError(f"Dtypes {fake.dtype} and {y.dtype} are not equal!")


def _run_fake(operator: Any, args: tuple, kwargs: dict, run: int) -> list[Tensor]:
    """Return the tensors of the fake kernel, in run 0 or 1, whose sizes that depend on
    values differ."""
    with no_grad(), dynamic_sizes(run):
        return collect_leaves(
            Tensor, operator(*tree_map(_as_meta, args), **tree_map(_as_meta, kwargs)))


def _as_meta(x: Any) -> Any:
    return x.detach().to("meta") if isinstance(x, Tensor) else x


def _check_aliases(operator: CustomOperator) -> None:
    """Raise RuntimeError if results of a user's operator share memory: functionalization, which
    compilers begin with, does not know such operators."""
    if _is_builtin(operator) or all(r.alias_info is None for r in operator._schema.returns):
        return
    raise RuntimeError(
        "Found a custom (non-ATen) operator whose output has alias annotations: "
        f"{operator._schema}. We only support functionalizing operators whose outputs do not have "
        "alias annotations (e.g. 'Tensor(a)' is a Tensor with an alias annotation whereas 'Tensor' "
        "is a Tensor without. The '(a)' is the alias annotation). The alias annotation specifies "
        "that the output Tensor shares storage with an input that has the same annotation. Please "
        "check if (1) the output needs to be an output (if not, don't return it), (2) if the "
        "output doesn't share storage with any inputs, then delete the alias annotation. (3) if "
        "the output indeed shares storage with an input, then add a .clone() before returning it "
        "to prevent storage sharing and then delete the alias annotation. Otherwise, please file "
        "an issue on GitHub.")


def _check_shapes_known(
    operator: CustomOperator, args: tuple, kwargs: dict, is_dynamic: bool
) -> None:
    """Raise if a compiler that knows no values could not tell the shapes of the results."""
    if not _is_builtin(operator):
        _run_fake(operator, args, kwargs, 0)
    elif not is_dynamic and Tag.dynamic_output_shape in operator.tags:
        raise DynamicOutputShapeException(operator)


def _check_compiled(
    operator: CustomOperator, args: tuple, kwargs: dict, compare: Callable,
    is_dynamic: bool = True,
) -> None:
    """Raise AssertionError if a compiled call's results or gradients differ from an eager one's."""
    from ..compiler import compile

    _check_aliases(operator)
    _check_shapes_known(operator, args, kwargs, is_dynamic)

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


CHECKS: dict[str, Callable] = {
    "test_schema": _check_schema, "test_autograd_registration": _check_autograd,
    "test_faketensor": _check_fake,
    "test_aot_dispatch_static": functools.partial(_check_compiled, is_dynamic=False),
    "test_aot_dispatch_dynamic": _check_compiled,
}
