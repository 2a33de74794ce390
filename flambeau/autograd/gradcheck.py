"""gradcheck: compares gradients from the tape with finite differences of the function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..native.foundation.user_frames import warn
from ..tensor.dtypes import FROM_NUMPY
from ..tensor.tensor import Tensor, wrap
from .backward import Batched, grad
from .checks.forward_gradcheck import (
    BATCHED_ADVICE, ForwardCheck, GradcheckError, collect_tensors, draw_like,
)
from .mode import enable_grad


def _select_differentiable(outputs: Any) -> list[Tensor]:
    return [y for y in collect_tensors(outputs) if y.requires_grad]


def _list_directions(array: np.ndarray) -> list[tuple[tuple[int, ...], complex]]:
    """Return (index, direction) pairs: 1 for each element, and also 1j if complex."""
    directions = (1, 1j) if array.dtype.kind == "c" else (1,)
    return [(index, d) for index in np.ndindex(array.shape) for d in directions]


class _Difference:
    """Central differences of sum(cotangent * output) over the outputs with a cotangent."""

    def __init__(
        self, fn: Callable, inputs: Sequence[Any], cotangents: dict[int, np.ndarray], eps: float
    ) -> None:
        self.fn, self.inputs, self.cotangents, self.eps = fn, inputs, cotangents, eps

    def _evaluate(self) -> float:
        # Keep the caller's grad mode: a function may ask which of its tensors require grad.
        # Sum in double precision, or rounding would swamp the differences of float32 outputs.
        outputs = [y._array for y in collect_tensors(self.fn(*self.inputs))]
        for i, c in self.cotangents.items():
            for kind in ("shape", "dtype"):
                self._check_same(kind, getattr(c, kind), getattr(outputs[i], kind))
        return sum((
            float(np.sum((outputs[i] * c.conj()).real, dtype=np.float64))
            for i, c in self.cotangents.items()
        ), 0.0)

    def _check_same(self, kind: str, before: Any, after: Any) -> None:
        """Raise AssertionError if an output's shape or dtype changes with the input's values."""
        if before == after:
            return
        names = [f"torch.Size({list(v)})" if kind == "shape" else f"torch.{FROM_NUMPY[v].name}"
                 for v in (after, before)]
        raise AssertionError(
            f"Expected `func` to return outputs with the same {kind} when inputs are perturbed on "
            f"index {self.place} by {self.eps}, but got: {kind}s {names[0]} and {names[1]}."
        )

    def along(self, x: Tensor, place: Any, direction: Any) -> float:
        """Return the slope as `x[place]` moves in a direction."""
        original = x._array[place].copy()
        self.place = place
        try:
            x._array[place] = original - self.eps * direction
            down = self._evaluate()
            x._array[place] = original + self.eps * direction
            up = self._evaluate()
        finally:
            x._array[place] = original
        return (up - down) / (2 * self.eps)

    def gradient(self, x: Tensor) -> np.ndarray:
        """Return the numerical gradient of `x`: two calls per real number in it."""
        result = np.zeros(x._array.shape, x._array.dtype)
        for index, direction in _list_directions(x._array):
            result[index] += self.along(x, index, direction) * direction
        return result

    def agrees_along(
        self, x: Tensor, gradient: np.ndarray, rng: np.random.RandomState, rtol: float, atol: float
    ) -> bool:
        """Return whether a gradient matches the slope along one unit direction: two calls.

        Errors of the slope add up over inputs and outputs; PyTorch allows as much.
        """
        direction = draw_like(rng, x._array)
        direction = direction / max(float(np.linalg.norm(direction)), 1e-300)
        numeric = self.along(x, ..., direction)
        actual = float(np.sum((gradient * direction.conj()).real))
        weight = sum(float(np.abs(c).sum()) for c in self.cotangents.values())
        allowed = atol * float(np.abs(direction).sum()) * weight
        return bool(np.isclose(actual, numeric, rtol, allowed, True))


def gradcheck(
    func: Callable, inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False, check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False, check_forward_ad: bool = False,
    check_backward_ad: bool = True, fast_mode: bool = False, masked: bool | None = None,
) -> bool:
    """Return whether the tape's gradients of `func` agree with central differences.

    Checked inputs must be float64 or complex128 and require grad. On a mismatch, raise
    GradcheckError naming the input, or return False if `raise_exception` is False. `fast_mode`
    compares slopes along one random direction per input: two calls instead of two per number.

    >>> x = torch.tensor([1., 2.], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(lambda x: x.sin() * x, (x,))
    True
    """
    supplied = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    check_sparse_dims: Callable[[], None] | None = None
    for x in supplied:
        if isinstance(x, Tensor) and x._array.strides is None:  # sparse
            check_sparse_dims = partial(x._check_sparse_dims, func, supplied)
            func, supplied = x._leaves_of(func, supplied, bool(masked))
            break
    if not check_backward_ad and not check_forward_ad:
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be "
                             "True")
    try:
        if check_backward_ad:
            _check(func, supplied, eps, atol, rtol, nondet_tol, fast_mode)
            if check_batched_grad:
                _check_batched(func, supplied)
            if check_sparse_dims is not None:
                check_sparse_dims()
        if check_forward_ad:
            forward = ForwardCheck(func, supplied)
            forward.compare(eps, atol, rtol)
            if check_undefined_grad:
                forward.compare_undefined()
            if check_batched_forward_grad:
                forward.compare_batched()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check(
    func: Callable, inputs: tuple, eps: float, atol: float, rtol: float, nondet_tol: float,
    fast_mode: bool,
) -> None:
    checked = _check_inputs(inputs)
    outputs = collect_tensors(func(*inputs))
    live = {i: y for i, y in enumerate(outputs) if y._array.dtype.kind in "fc"}
    # If some outputs require grad, ignore the others; if none does, all must be constant.
    live = {i: y for i, y in live.items() if y.requires_grad} or live
    rng = np.random.RandomState(0)
    cotangents = {i: draw_like(rng, y._array) for i, y in live.items()}
    analytic = _compute_gradient_arrays(live, checked, cotangents)
    recomputed = _compute_gradient_arrays(live, checked, cotangents)
    if _find_difference(analytic, recomputed, nondet_tol) is not None:
        # Kernels begin at an operator's second call, and round otherwise: compare later passes.
        third = _compute_gradient_arrays(live, checked, cotangents)
        _check_reproducible(recomputed, third, nondet_tol)
    difference = _Difference(func, inputs, cotangents, eps)
    for i, (x, actual) in enumerate(zip(checked, analytic, strict=True)):
        if fast_mode and difference.agrees_along(x, actual, rng, rtol, atol):
            continue  # else compare element by element, for the error message
        numeric = difference.gradient(x)
        if not np.allclose(actual, numeric, rtol, atol, equal_nan=True):
            if not any(y.requires_grad for y in live.values()):
                raise GradcheckError("Numerical gradient for function expected to be zero")
            _blame_output(func, inputs, live, cotangents, i, eps, atol, rtol)
            raise GradcheckError(_describe_mismatch(0, i, numeric, actual))
    _check_zero_cotangents(live, checked)


def _check_batched(func: Callable, inputs: tuple) -> None:
    """Raise GradcheckError unless vmap over two cotangents matches backward for each."""
    checked = _check_inputs(inputs)
    rng = np.random.RandomState(2)
    for y in _select_differentiable(func(*inputs)):
        rows = wrap(np.stack([draw_like(rng, y._array) for _ in range(2)]))

        def gradients(g: Tensor, y: Tensor = y) -> tuple[Tensor | None, ...]:
            return grad(y, checked, g, True, allow_unused=True)

        expected = [gradients(row) for row in rows.unbind(0)]
        try:
            result = Batched.vmap(gradients)(rows)
        except RuntimeError as error:
            raise GradcheckError(
                f"While computing batched gradients, got: {error}\n\n{BATCHED_ADVICE}"
            ) from error
        for i, batched in enumerate(result):
            wanted = [row[i] for row in expected]
            if batched is None:
                continue
            for k, g in enumerate(wanted):
                if g is not None and not np.allclose(batched._array[k], g._array):
                    raise GradcheckError(
                        f"For input {i}: gradients computed with vmap differ,\n{batched[k]}\n"
                        f"expected:\n{g}\n{BATCHED_ADVICE}"
                    )


def _check_inputs(inputs: tuple) -> list[Tensor]:
    """Return the inputs that require grad. Warn about low precision.

    Raise ValueError if there are none, RuntimeError if one has a dimension of stride 0.
    """
    tensors = collect_tensors(inputs)
    checked = [t for t in tensors if t.requires_grad]
    if not checked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the "
            "them have requires_grad=True."
        )
    for i, t in enumerate(tensors):
        if not t.requires_grad:
            continue
        if t.dtype.name not in ("float64", "complex128"):
            warn(
                f"Input #{i} requires gradient and is not a double precision floating point or "
                "complex. This check will likely fail if all the inputs are not of double "
                "precision floating point or complex. ",
                UserWarning,
            )
        if any(stride == 0 and n > 1 for stride, n in zip(t.stride(), t.shape, strict=True)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs "
                "that are non-overlapping to be able to compute the numerical gradients correctly. "
                "You should call .contiguous on the input before passing it to gradcheck."
            )
    return checked


def _compute_gradients(
    outputs: dict[int, Tensor], inputs: Sequence[Tensor], cotangents: dict[int, np.ndarray]
) -> Sequence[Any]:
    """Return the inputs' gradients from the tape, given cotangents of some outputs."""
    recorded = [i for i in cotangents if outputs[i].requires_grad]
    if not recorded:
        return (None,) * len(inputs)
    result: Sequence[Any] = grad(
        [outputs[i] for i in recorded], inputs, [wrap(cotangents[i]) for i in recorded], True,
        allow_unused=True)
    return result


def _compute_gradient_arrays(
    outputs: dict[int, Tensor], inputs: Sequence[Tensor], cotangents: dict[int, np.ndarray]
) -> list[np.ndarray]:
    """Return the gradients as arrays. Raise GradcheckError if a layout differs from its input's."""
    arrays = []
    for x, g in zip(inputs, _compute_gradients(outputs, inputs, cotangents), strict=True):
        if g is not None and g.layout != x.layout:
            raise GradcheckError(f"grad is incorrect layout ({g.layout} is not {x.layout})")
        arrays.append(np.zeros(x._array.shape, x._array.dtype) if g is None else g._array)
    return arrays


def _describe_mismatch(output: int, i: int, numeric: np.ndarray, actual: np.ndarray) -> str:
    return (f"Jacobian mismatch for output {output} with respect to input {i},\n"
            f"numerical:{numeric}\nanalytical:{actual}\n")


def _blame_output(
    func: Callable, inputs: tuple, live: dict[int, Tensor], cotangents: dict[int, np.ndarray],
    i: int, eps: float, atol: float, rtol: float,
) -> None:
    """Raise GradcheckError naming the output (and its real or imaginary part, if complex) whose
    gradient of input `i` is wrong."""
    x = _check_inputs(inputs)[i]
    parts: list[tuple[str, Callable]] = [("", np.asarray)]
    if any(y._array.dtype.kind == "c" for y in live.values()):
        words = "While considering the {} part of complex outputs only, "
        parts = [(words.format("imaginary"), lambda c: 1j * c.imag),
                 (words.format("real"), lambda c: c.real.astype(c.dtype))]
    for prefix, part in parts:
        for number, (k, y) in enumerate(live.items()):
            if prefix and y._array.dtype.kind != "c":
                continue
            chosen = {k: part(cotangents[k])}
            (actual,) = _compute_gradient_arrays(live, [x], chosen)
            numeric = _Difference(func, inputs, chosen, eps).gradient(x)
            if not np.allclose(actual, numeric, rtol, atol, equal_nan=True):
                raise GradcheckError(prefix + _describe_mismatch(number, i, numeric, actual))


def _check_zero_cotangents(outputs: dict[int, Tensor], inputs: Sequence[Tensor]) -> None:
    """Raise GradcheckError unless zero cotangents give zero gradients of the input's type."""
    zeros = {i: np.zeros(y._array.shape, y._array.dtype) for i, y in outputs.items()}
    for x, g in zip(inputs, _compute_gradients(outputs, inputs, zeros), strict=True):
        if g is None:
            continue
        if np.any(g._array):
            raise GradcheckError("backward not multiplied by grad_output")
        if g.dtype != x.dtype:
            raise GradcheckError("grad is incorrect type")
        if g.shape != x.shape:
            raise GradcheckError("grad is incorrect size")


def _check_reproducible(
    first: Sequence[np.ndarray], second: Sequence[np.ndarray], tolerance: float
) -> None:
    i = _find_difference(first, second, tolerance)
    if i is not None:
        raise GradcheckError(
            f"Backward is not reentrant, i.e., running backward with same input and "
            f"grad_output multiple times gives different values, for input {i}, although "
            f"analytical gradient matches numerical gradient. The tolerance for "
            f"nondeterminism was {tolerance}."
        )


def _find_difference(
    first: Sequence[np.ndarray], second: Sequence[np.ndarray], tolerance: float
) -> int | None:
    """The first input whose gradients differ by more than the tolerance."""
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        if not np.allclose(a, b, 0, tolerance, equal_nan=True):
            return i
    return None


def gradgradcheck(
    func: Callable, inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6,
    atol: float = 1e-5, rtol: float = 1e-3, gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False, check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True, fast_mode: bool = False, masked: bool = False,
) -> bool:
    """Return whether second derivatives of `func` agree with central differences of its gradients.

    >>> x = torch.tensor([1., 2.], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradgradcheck(lambda x: x.sin() * x, (x,))
    True
    """
    supplied = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    outputs = _select_differentiable(func(*supplied))
    if grad_outputs is None:
        rng = np.random.RandomState(1)
        seeds = [wrap(draw_like(rng, y._array)).requires_grad_() for y in outputs]
    else:
        seeds = list(collect_tensors(grad_outputs))
    count = len(seeds)

    def first_gradients(*args: Any) -> tuple[Tensor, ...]:
        xs, gs = args[:-count], args[-count:]
        live = [t for t in xs if isinstance(t, Tensor) and t.requires_grad]
        with enable_grad():
            ys = _select_differentiable(func(*xs))
            result = grad(ys, live, gs, create_graph=True, allow_unused=True)
        return tuple(g for g in result if g is not None)

    return gradcheck(
        first_gradients, (*supplied, *seeds), eps=eps, atol=atol, rtol=rtol,
        raise_exception=raise_exception, nondet_tol=nondet_tol, fast_mode=fast_mode,
        check_batched_grad=check_batched_grad,
    )
