"""SchemaCheckMode: a mode that compares what operators write and return with their schemas."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

from ..ops.interception.torch_dispatch import without_dispatch
from ..tensor.layout import strided
from ..tensor.tensor import Tensor
from ..tensor.tree import collect_leaves
from ..utils._python_dispatch import TorchDispatchMode

__all__ = ["Aliasing", "Mutation", "SchemaCheckMode"]

_UNSAFE = frozenset(("aten::_unsafe_view", "aten::unsafe_split"))  # they hide that they are views
_LIFTS = frozenset(("aten::lift", "aten::lift_fresh"))
# Operators that write running statistics if an argument says that the model is trained.
_TRAINED = {"running_mean", "running_var"}
_TRAINING = ("training", "train", "use_input_stats")


class Mutation(NamedTuple):
    """A write: the operator and the argument."""

    op_name: str
    arg_name: str


class Aliasing(NamedTuple):
    """A result that shares memory: the operator, the argument, and `output_0`, `output_1`, ..."""

    op_name: str
    arg_name: str
    output_number: str


class SchemaCheckMode(TorchDispatchMode):
    """Raises RuntimeError where an operator writes or returns an argument against its schema.

    `ops`, `mutated` and `aliasing` list the operators called, and what the schemas allow them.

    >>> from flambeau._subclasses.schema_check_mode import SchemaCheckMode
    >>> x = torch.zeros(2)
    >>> with SchemaCheckMode() as mode:
    ...     y = x.add_(1)
    >>> mode.ops, mode.mutated
    (['aten::add_'], [Mutation(op_name='aten::add_', arg_name='input')])
    """

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[str] = []
        self.mutated: list[Mutation] = []
        self.aliasing: list[Aliasing] = []

    def reset_cache(self) -> None:
        """Forget what was called."""
        for entries in (self.ops, self.mutated, self.aliasing):
            entries.clear()

    def display_ops(self) -> None:
        """Print the operators called."""
        print(*self.ops, sep=",")

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run an operator and compare."""
        kwargs = kwargs or {}
        schema = getattr(func, "_schema", None)
        if schema is None:  # an operator of flambeau's own
            return func(*args, **kwargs)
        self.ops.append(schema.name)
        names = [argument.name for argument in schema.arguments]
        values = {**dict(zip(names, args, strict=False)), **kwargs}
        inputs = [[_unwrap(x) for x in collect_leaves(Tensor, values.get(name))] for name in names]
        states = [[_State(x) for x in tensors] for tensors in inputs]
        out = func(*args, **kwargs)
        results = out if isinstance(out, tuple) else (out,)
        outputs = [[_unwrap(x) for x in collect_leaves(Tensor, result)] for result in results]
        self._check(_Promise(schema, values, inputs), inputs, states, outputs)
        return out

    def _check(
        self, promise: _Promise, inputs: list, states: list, outputs: list
    ) -> None:
        operator = promise.schema.name
        for i, argument in enumerate(promise.schema.arguments):
            name = "input" if argument.name == "self" else argument.name
            for j, tensors in enumerate(outputs):
                if _overlap(tensors, inputs[i]) and operator not in _UNSAFE:
                    if not promise.may_alias(i, j):
                        raise RuntimeError(
                            f"Argument {name} is not defined to alias output but was aliasing")
                    self.aliasing.append(Aliasing(operator, name, f"output_{j}"))
                is_returned = any(x is y for x in tensors for y in inputs[i])
                if is_returned and not promise.is_mutable(i) and operator not in _LIFTS:
                    raise RuntimeError(
                        "Dispatcher operators below autograd are not allowed to directly return "
                        f"inputs.\nHowever, we found that `outputs[{j}] is {name}")
            if any(state.has_changed(x) for state, x in zip(states[i], inputs[i], strict=True)):
                if not promise.is_mutable(i):
                    raise RuntimeError(
                        f"Argument {name} is not defined as mutable but was mutated")
                self.mutated.append(Mutation(operator, name))
        for i, j in combinations(range(min(len(outputs), len(promise.schema.returns))), 2):
            if _overlap(outputs[i], outputs[j]) and not promise.results_may_alias(i, j):
                raise RuntimeError(f"Outputs {i} and {j} alias unexpectedly")


class _Promise:
    """What a schema allows a call. Arguments that share memory share what they are allowed."""

    def __init__(self, schema: Any, values: dict[str, Any], inputs: list) -> None:
        self.schema, self.values, self.inputs = schema, values, inputs

    def _sharing(self, i: int) -> list[int]:
        return [k for k, tensors in enumerate(self.inputs)
                if k == i or _overlap(tensors, self.inputs[i])]

    def may_alias(self, i: int, j: int) -> bool:
        """Whether result `j` may share memory with argument `i`."""
        if j >= len(self.schema.returns):
            return False
        result = self.schema.returns[j]
        return any(_meet(self.schema.arguments[k], result) for k in self._sharing(i))

    def results_may_alias(self, i: int, j: int) -> bool:
        """Whether two results may share memory."""
        return _meet(self.schema.returns[i], self.schema.returns[j])

    def is_mutable(self, i: int) -> bool:
        """Whether argument `i` may be written."""
        return any(self._is_written(self.schema.arguments[k]) for k in self._sharing(i))

    def _is_written(self, argument: Any) -> bool:
        if argument.name in _TRAINED:
            stated = [name for name in _TRAINING if name in self.values]
            if stated:
                return bool(self.values[stated[0]])
        return bool(argument.is_written)


def _meet(first: Any, second: Any) -> bool:
    """Whether two arguments or results have an alias set in common."""
    if first.alias_info is None or second.alias_info is None:
        return False
    return bool(first.alias_info.before_set & second.alias_info.before_set)


class _State:
    """A tensor before a call: its elements, strides and storage."""

    def __init__(self, x: Tensor) -> None:
        self.is_known = type(x) is Tensor and x.layout is strided and x.device.type != "meta"
        if self.is_known:
            self.copy, self.strides = x.detach().clone(), x.stride()
            self.storage = x.untyped_storage()._cdata

    def has_changed(self, x: Tensor) -> bool:
        """Whether the tensor differs from what it was."""
        if not self.is_known:
            return False
        if (x.shape, x.stride()) != (self.copy.shape, self.strides):
            return True
        x, old = x.detach(), self.copy
        return x.untyped_storage()._cdata != self.storage or not bool(
            ((x == old) | ((x != x) & (old != old))).all())


def _unwrap(x: Any) -> Any:
    """Return the tensor that a wrapper of tests and tutorials holds as `elem`."""
    return getattr(x, "elem", x) if type(x) is not Tensor else x


def _overlap(first: list, second: list) -> bool:
    """Whether two lists have tensors on one storage. It is torch._C._overlaps for tensors."""
    with without_dispatch():
        return bool({*map(_storage_of, first)} & {*map(_storage_of, second)} - {None})


def _storage_of(x: Tensor) -> Any:
    if type(x) is not Tensor or x.layout is not strided:
        return None
    return x.untyped_storage()._cdata
