"""Elementwise: base of optimizers whose update applies one formula to each element.

The formula is written with Tensor methods, which define its meaning. After a few steps it runs
compiled on contiguous float32 and float64 parameters (see kernel.py), with the same roundings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from .. import ops
from ..autograd import enable_grad, is_grad_enabled, set_grad_enabled
from ..tensor import Tensor
from .kernel import Table, get_kernel
from .optimizer import Optimizer, counter_dtype, number

WARM = 6  # requests for a kernel before it is compiled, which takes about 50 ms;
_ELEMENTS_PER_STEP = 10_000  # this many updated elements count as one more request
_compiled: set[Any] = set()  # kernels compiled for any optimizer are used from the first step

Row = tuple[Tensor, Tensor, dict[str, Any]]  # a parameter, its gradient and its state


def create_counter(fused: bool | None = None, value: float = 0.0) -> Tensor:
    """Return a parameter's step counter: a 0-dimensional tensor that starts at `value`."""
    return ops.tensor(value, dtype=counter_dtype(fused))


def increment_counter(counter: Tensor) -> float:
    """Increment a step counter; return the new count."""
    array = counter._array
    count = array.item() + 1.0
    array[()] = count
    counter._bump()
    return count


def scalar(value: Any, differentiable: bool) -> Any:
    """Return a hyperparameter as a number, or as a 0-dimensional tensor if it needs a gradient."""
    if not isinstance(value, Tensor):
        return value
    if differentiable and value.requires_grad:
        return value.squeeze()
    return number(value)


def add_scaled_(target: Any, update: Any, scale: Any) -> Any:
    """target += scale * update; `scale` may be a tensor."""
    if isinstance(scale, Tensor):
        return target.add_(update * scale)
    return target.add_(update, alpha=scale)


def add_scaled(value: Any, update: Any, scale: Any) -> Any:
    """value + scale * update; `scale` may be a tensor."""
    if isinstance(scale, Tensor):
        return value.add(update * scale)
    return value.add(update, alpha=scale)


def add_product_(target: Any, a: Any, b: Any, scale: Any) -> Any:
    """target += scale * a * b; `scale` may be a tensor."""
    if isinstance(scale, Tensor):
        return target.add_(a * b * scale)
    return target.addcmul_(a, b, value=scale)


def add_quotient_(target: Any, a: Any, b: Any, scale: Any) -> Any:
    """target += scale * a / b; `scale` may be a tensor."""
    if isinstance(scale, Tensor):
        return target.add_(a / b * scale)
    return target.addcdiv_(a, b, value=scale)


class Elementwise(Optimizer):
    """Base class. Subclasses define `_flambeau_scalars`, `_flambeau_formula`, `_flambeau_begin`,
    `_flambeau_states` and `_flambeau_plan`.

    The scalars are a NamedTuple of numbers that may change from step to step. `formula(flags,
    scalars, param, grad, *states)` updates `param` and `states` in place; the hashable `flags`
    select its branches.
    """

    _flambeau_scalars: type[Any]
    _flambeau_formula: Callable[..., None]

    def _flambeau_begin(
        self, group: dict[str, Any], param: Tensor, state: dict[str, Any]
    ) -> Hashable:
        """Create the parameter's state if it has none and count the step. Return the count, or
        whatever else determines this parameter's flags and scalars besides its group.

        A state is filled in one call: one left half-filled by Ctrl-C would break the next step.
        """
        raise NotImplementedError

    def _flambeau_states(self, group: dict[str, Any]) -> tuple[str, ...]:
        """Return the names of the states that the formula takes, in order."""
        raise NotImplementedError

    def _flambeau_plan(self, group: dict[str, Any], key: Any) -> tuple[Any, Any]:
        """Return the flags and scalars for a group's parameters with this key."""
        raise NotImplementedError

    def _flambeau_prepare(self) -> None:
        super()._flambeau_prepare()
        self._flambeau_kernels: dict[Any, Any] = {}  # by flags and dtype; None: not compilable
        self._flambeau_requests: Counter[Any] = Counter()  # weighted by size, until compiled
        self._flambeau_tables: dict[Any, Table] = {}  # by first parameter, length and kernel

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update every parameter that has a gradient; return the closure's result."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with set_grad_enabled(bool(self.defaults["differentiable"])):
            for group in self.param_groups:
                self._flambeau_step_group(group)
        return loss

    def _flambeau_step_group(self, group: dict[str, Any]) -> None:
        if group.get("capturable"):
            raise AssertionError(
                f"{type(self).__name__}: If capturable=True, params and state_steps must be on "
                "supported devices: ['cuda', 'xpu', 'hpu', 'xla']."
            )
        begin, state_of = self._flambeau_begin, self.state
        names = self._flambeau_states(group)
        alike: dict[Any, list[Row]] = {}
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            state = state_of[param] if names else {}  # stateless optimizers get no entry
            key = begin(group, param, state)
            if key in alike:
                alike[key].append((param, grad, state))
            else:
                alike[key] = [(param, grad, state)]
        for key, rows in alike.items():
            flags, scalars = self._flambeau_plan(group, key)
            if not (group["differentiable"] or is_grad_enabled()):
                rows = self._flambeau_run_compiled(flags, scalars, rows, names)
            for param, grad, state in rows:
                self._flambeau_run_formula(flags, scalars, param, grad, [state[n] for n in names])

    def _flambeau_run_formula(
        self, flags: Any, scalars: Any, param: Tensor, grad: Tensor, states: list[Tensor]
    ) -> None:
        """Run the formula on tensors; on real views of complex ones."""
        if grad.is_sparse:
            self._flambeau_run_sparse(flags, scalars, param, grad, states)
            return
        tensors = [param, grad, *states]
        if param.is_complex():
            tensors = [ops.view_as_real(t) for t in tensors]
        type(self)._flambeau_formula(flags, scalars, *tensors)

    def _flambeau_run_sparse(
        self, flags: Any, scalars: Any, param: Tensor, grad: Tensor, states: list[Tensor]
    ) -> None:
        """Update a parameter with a sparse gradient, if the optimizer supports it."""
        raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")

    # ---------------------------------------------------------------- the compiled path

    def _flambeau_run_compiled(
        self, flags: Any, scalars: Any, rows: list[Row], names: tuple[str, ...]
    ) -> list[Row]:
        """Run the kernel on the rows that it supports; return the others."""
        dtype = rows[0][0]._array.dtype
        kernel = self._flambeau_kernel(flags, dtype, rows, len(names))
        if kernel is None:
            of_other_dtypes = [row for row in rows if row[0]._array.dtype != dtype]
            if not of_other_dtypes:
                return rows
            of_dtype = [row for row in rows if row[0]._array.dtype == dtype]
            return of_dtype + self._flambeau_run_compiled(flags, scalars, of_other_dtypes, names)
        tensors: list[Tensor] = []
        for param, _, state in rows:
            tensors.append(param)
            for name in names:
                tensors.append(state[name])
        addresses = [id(t._array) for t in tensors]
        table_key = rows[0][0], len(rows), kernel
        table = self._flambeau_tables.get(table_key)
        if table is None or table.addresses != addresses:
            table = Table(kernel, addresses, tensors, len(names) + 1)
            self._flambeau_tables[table_key] = table
        if table.unfit:
            unfit = [row for row, fit in zip(rows, table.fit, strict=True) if not fit]
            rows = [row for row, fit in zip(rows, table.fit, strict=True) if fit]
            return unfit + (
                self._flambeau_run_compiled(flags, scalars, rows, names) if rows else []
            )
        grads = table.fit_gradients([grad._array for _, grad, _ in rows])
        if grads is None:
            return rows
        table.run(grads, scalars)
        for tensor, writes in zip(tensors, kernel.writes * len(rows), strict=True):
            tensor._bump(writes)
        return []

    def _flambeau_kernel(self, flags: Any, dtype: np.dtype, rows: list[Row], states: int) -> Any:
        """Return the kernel for these flags, or None, also if it was requested too rarely."""
        kernels, requests = self._flambeau_kernels, self._flambeau_requests
        cache_key = flags, dtype
        if cache_key in kernels:
            return kernels[cache_key]
        key: tuple = (type(self)._flambeau_formula, flags, self._flambeau_scalars, states, dtype)
        elements = sum(param._array.size for param, _, _ in rows)
        requests[cache_key] += 1 + elements // _ELEMENTS_PER_STEP
        if requests[cache_key] <= WARM and key not in _compiled:
            return None
        _compiled.add(key)
        kernel = kernels[cache_key] = get_kernel(*key)
        return kernel
