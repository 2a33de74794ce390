"""Self-check: before a program is used, it must reproduce the recorded call.

It runs on the real memory, filled with the recorded call's values; afterwards the memory is
restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...native.target.graph_costs import MAX_COMPARED_WHOLE_ELEMENTS
from ...native.target.matmul_precision import MatmulPrecision
from ..ir.errors import CheckFailed
from ..ir.exchange import Exchange, replay_offline
from ..trace.bindings import Bindings, ComputedNumber, SavedForBackward, Scalar, State
from ..trace.trace import are_same_bits

KINK_TOLERANCE = (
    0.03  # fraction of all gradients' norm; flips at activations' kinks
)
CANCELLATION_TOLERANCE = 1e-3  # rounding may leave a sum of numbers up to 1 this close to 0
_TOLERANCE = {"float64": 1e-7, "float32": 2e-3, "float16": 5e-2, "bfloat16": 2e-1}


def check(step: Any, bindings: Bindings, backward: Any = None,
          take: Callable[[list[np.ndarray]], None] | None = None) -> str | None:
    """Return the first result that differs from the recorded call's, or None if all agree.

    If they agree, `take` gets the program's outputs, and its writes are kept.
    """
    slots, states = bindings.slots, _States(step, bindings)
    noise = estimate_noise_floor(bindings.recorded)
    try:
        states.rewind()
        inputs = [_as_argument(slots[i], bindings.recorded[i]) for i in step.changing]
        with replay_offline(step.edges) as exchanges:
            try:
                outputs = [np.array(y) for y in step.run(inputs)]
            except CheckFailed:
                return "outcome (a check of values that the recorded call passed)"
            problem = _compare_exchanges(exchanges, noise)
        if problem is not None:
            return problem
        cotangents = _backward(backward, bindings, outputs)
        problem = _find_first_mismatch(step, bindings, outputs, cotangents, states, noise)
        if problem is None and take is not None:
            states.leave()
            take(outputs)
        return problem
    finally:
        states.restore()


class _States:
    """The step's state memory: current values, and values before the recorded call.

    State that already has its recorded values is not touched. `moved`: the squared distance by
    which the recorded call moved the tensors that optimizers update.
    """

    def __init__(self, step: Any, bindings: Bindings) -> None:
        written = {slot for slot, _ in step.edges.writes}
        self.arrays = {i: slot.array for i, slot in enumerate(bindings.slots)
                       if isinstance(slot, State)}
        self.recorded = bindings.recorded
        self.written = written
        self.changed = [
            i for i, array in self.arrays.items() if self.recorded[i] is not array
            and (i in written or not are_same_bits(array, self.recorded[i]))
        ]
        self.saved: dict[int, np.ndarray] = {}
        self.moved = 0.0
        for (slot, _), expected in zip(step.edges.writes, bindings.written, strict=True):
            if slot in self.arrays and _is_updated(step, bindings, slot):
                after = self.arrays[slot] if expected is None else expected
                self.moved += sum_squared_differences(after, self.recorded[slot])

    def rewind(self) -> None:
        """Write the recorded values to the states, and drop the copies to save memory."""
        for i in self.changed:
            array = self.arrays[i]
            self.saved[i] = array.copy()
            array[...] = self.recorded[i]
            self.recorded[i] = None

    def leave(self) -> None:
        """Keep the program's writes."""
        self.saved = {i: value for i, value in self.saved.items() if i not in self.written}

    def restore(self) -> None:
        """Restore the values before the check."""
        for i, value in self.saved.items():
            self.arrays[i][...] = value


def _is_updated(step: Any, bindings: Bindings, slot: int) -> bool:
    """Whether an optimizer moves this state; such states are compared as a whole."""
    source = step.edges.sources[slot]
    return source.name != "grad" and source.type.floating and bool(bindings.updates)


def _find_first_mismatch(
    step: Any, bindings: Bindings, outputs: list[np.ndarray], cotangents: list[tuple],
    states: _States, noise: float,
) -> str | None:
    """Return the first result that differs. Differences below `noise` may be rounding."""
    for number, (actual, expected) in enumerate(zip(outputs, bindings.expected, strict=False)):
        if not agree(actual, expected, noise):
            return f"result {number} ({_describe_gap(actual, expected)})"
    for actual, expected in cotangents:
        largest = max(noise, *(compute_max_magnitude(cotangent) for _, cotangent in cotangents))
        if not agree(actual, expected, largest):
            return f"gradient ({_describe_gap(actual, expected)})"
    return _compare_writes(step, bindings, states, noise)


def _backward(step: Any, bindings: Bindings, outputs: list[np.ndarray]) -> list[tuple]:
    """Return (actual, wanted) for the cotangents that the backward program computes."""
    second = bindings.backward
    if second is None:
        return []
    values = []
    for i in step.changing:
        number = second.usual.slots[i]
        slot = second.slots[number]
        is_saved = isinstance(slot, SavedForBackward)
        values.append(outputs[slot.number] if is_saved else second.recorded[number])
    expected = [second.expected[i] for i in second.usual.numbers]
    return list(zip(step.run(values), expected, strict=True))


def _compare_writes(step: Any, bindings: Bindings, states: _States, noise: float) -> str | None:
    """Compare the writes: updated parameters as a whole, the rest one by one."""
    pairs, gradients = [], []
    for (slot, _), expected in zip(step.edges.writes, bindings.written, strict=True):
        if slot not in states.arrays:
            continue
        actual = states.arrays[slot]
        if expected is None:  # unchanged since the recorded call
            expected = states.saved[slot]
        name = step.edges.sources[slot].name
        if name == "grad":
            gradients.append((actual, expected))
        elif _is_updated(step, bindings, slot):
            pairs.append((actual, expected))
        elif not agree(actual, expected, noise):
            return f"value of {name or 'a state'} ({_describe_gap(actual, expected)})"
    # Rounding may put an activation on either side of its kink, which changes single elements of
    # gradients: if some disagree, compare gradients as a whole.
    largest = max((compute_max_magnitude(expected) for _, expected in gradients), default=noise)
    are_noise = False
    if not all(agree(result, expected, largest) for result, expected in gradients):
        gap = sum(sum_squared_differences(a, b) for a, b in gradients)
        size = sum(sum_squares(b) for _, b in gradients)
        # Gradients of a converged step are rounding and nothing else.
        are_noise = all(agree(result, expected, noise) for result, expected in gradients)
        if not gap <= KINK_TOLERANCE**2 * size and not are_noise:
            return f"set of gradients (by {gap**0.5:.2g} where they are {size**0.5:.2g})"
    # Optimizers divide gradients by their size, so noise in a zero gradient becomes a full step:
    # compare all changes together. If all gradients are noise, no such step may be taken.
    gap = sum(sum_squared_differences(a, b) for a, b in pairs)
    if not is_small_change(gap, states.moved) and (
        are_noise or not all(agree(a, b) for a, b in pairs)
    ):
        return (f"update of the parameters (by {gap**0.5:.2g} where they move by "
                f"{states.moved**0.5:.2g})")
    return None


def is_small_change(gap: float, moved: float) -> bool:
    """Return whether an update is right: the squared distance `gap` from the expected parameters
    is small against the squared distance that they moved."""
    return gap <= 0.1 * moved + 1e-12


def estimate_noise_floor(arguments: Iterable[Any]) -> float:
    """Return how far results may be off by cancellation, for arrays among these arguments."""
    arrays = [x for x in arguments if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
    return CANCELLATION_TOLERANCE * min(1.0, max(map(compute_max_magnitude, arrays), default=0.0))


def _compare_exchanges(exchanges: list[Exchange], noise: float) -> str | None:
    """Compare values sent to other processes, with the tolerance of gradients."""
    for exchange in exchanges:
        wanted_arrays, _ = exchange.recorded or ((), ())
        for actual, expected in zip(exchange.seen, wanted_arrays, strict=True):
            if agree(actual, expected, noise):
                continue
            gap, size = sum_squared_differences(actual, expected), sum_squares(expected)
            if not gap <= KINK_TOLERANCE**2 * size:
                return f"value for {exchange.__name__} ({_describe_gap(actual, expected)})"
        exchange.recorded = None
    return None


def _as_argument(slot: Any, value: Any) -> Any:
    """Return a recorded source in the form that `run` takes."""
    return float(value) if isinstance(slot, (Scalar, ComputedNumber)) else value


def compute_max_magnitude(array: np.ndarray) -> float:
    """Return the greatest finite magnitude."""
    with np.errstate(all="ignore"):
        largest = float(np.max(np.abs(array), initial=0.0))
        if np.isfinite(largest):
            return largest
        widened = array.astype(np.float64)
        return float(np.max(np.abs(widened[np.isfinite(widened)]), initial=0.0))


def sum_squares(array: np.ndarray) -> float:
    """Return the sum of squares of the finite elements."""
    widened = array.astype(np.float64)
    return float(np.sum(widened[np.isfinite(widened)] ** 2))


def sum_squared_differences(a: np.ndarray, b: np.ndarray) -> float:
    """Return the squared distance of two arrays; equal NaNs and infinities count as 0."""
    with np.errstate(all="ignore"):
        gap = (a - b).reshape(-1)
        result = float(np.dot(gap, gap))
        if a.dtype.itemsize >= 4 and np.isfinite(result):
            return result
        same = ((a == b) | (a != a) & (b != b)).reshape(-1)
        return float(np.sum(np.where(same, 0, gap.astype(np.float64) ** 2)))


def _is_close(actual: np.ndarray, expected: np.ndarray, bound: float, scale: float) -> bool:
    """Whether no element is off by more than `bound` times the greatest magnitude; False if any is
    not finite."""
    with np.errstate(all="ignore"):
        magnitude = max(scale, float(np.max(np.abs(expected))), 1e-6)
        return float(np.max(np.abs(actual - expected))) <= bound * magnitude < np.inf


def agree(actual: np.ndarray, expected: np.ndarray, scale: float = 0.0) -> bool:
    """Whether two arrays are equal within rounding error, at magnitudes up to `scale`."""
    if actual.shape != expected.shape:
        return False
    if expected.dtype.kind in "iub":
        return bool(np.mean(actual != expected) <= 0.02) if expected.size else True
    # products of bfloat16 numbers
    rough = MatmulPrecision.parts == 1 and expected.dtype.name == "float32"
    bound = _TOLERANCE.get("float16" if rough else expected.dtype.name, 1e-2)
    if expected.size > MAX_COMPARED_WHOLE_ELEMENTS and _is_close(actual, expected, bound, scale):
        return True
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    scale = max(scale, compute_max_magnitude(expected))
    return bool(np.allclose(a, b, rtol=bound, atol=bound * max(scale, 1e-6), equal_nan=True))


def _describe_gap(actual: np.ndarray, expected: np.ndarray) -> str:
    if actual.shape != expected.shape:
        return f"shape {list(actual.shape)} where it is {list(expected.shape)}"
    with np.errstate(all="ignore"):
        gap = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
    return f"by up to {np.nanmax(gap, initial=0.0):.3g}"
