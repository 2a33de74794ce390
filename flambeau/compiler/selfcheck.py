"""Self-check: before a program is trusted, it repeats the recorded call, and must agree with it.

It runs on the real memory, with the values of the recorded call put there; then everything is as
it was.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .bindings import Bindings, Kept, Scalar, State

KINKS = 0.03  # of the norm of all gradients, that activations at their kinks may account for
_SHORT = 4096  # elements, up to which two arrays are compared at once in double precision
_TOLERANCE = {"float64": 1e-7, "float32": 2e-3, "float16": 5e-2, "bfloat16": 2e-1}


def check(step: Any, bindings: Bindings, backward: Any = None) -> str | None:
    """The first result that differs from the recorded call's; None where all agree."""
    slots = bindings.slots
    states = [(i, slot.array) for i, slot in enumerate(slots) if isinstance(slot, State)]
    kept = [array.copy() for _, array in states]
    try:
        for i, array in states:
            array[...] = bindings.recorded[i]
        outputs = step.run([_laid(slots[i], bindings.recorded[i]) for i in step.changing])
        outputs = [np.array(y) for y in outputs]
        cotangents = _backward(backward, bindings, outputs)
        written = {slot: slots[slot] for slot, _ in step.graph.writes}
        now = {slot: one.array for slot, one in written.items() if isinstance(one, State)}
        return _wrong(step, bindings, outputs, cotangents, now)
    finally:
        for (_, array), value in zip(states, kept, strict=True):
            array[...] = value


def _wrong(
    step: Any, bindings: Bindings, outputs: list[np.ndarray], cotangents: list[tuple],
    now: dict[int, np.ndarray],
) -> str | None:  # fmt: skip
    """The first of all results that differs; `now`: states by slot, as the step left them."""
    for number, (found, wanted) in enumerate(zip(outputs, bindings.expected, strict=False)):
        if not agree(found, wanted):
            return f"result {number} ({_gap(found, wanted)})"
    for found, wanted in cotangents:
        largest = max(_scale(one) for _, one in cotangents)
        if not agree(found, wanted, largest):
            return f"gradient ({_gap(found, wanted)})"
    return _writes(step, bindings, now)


def _backward(step: Any, bindings: Bindings, outputs: list[np.ndarray]) -> list[tuple]:
    """(found, wanted) for the cotangents that the second program gives."""
    second = bindings.backward
    if second is None:
        return []
    values = []
    for i in step.changing:
        slot = second.slots[i]
        values.append(outputs[slot.number] if isinstance(slot, Kept) else second.recorded[i])
    return list(zip(step.run(values), second.expected, strict=True))


def _writes(step: Any, bindings: Bindings, now: dict[int, np.ndarray]) -> str | None:
    """What is written back: updated parameters as a whole, the rest one by one."""
    pairs, gradients = [], []
    sources = step.graph.sources
    for (slot, _), wanted in zip(step.graph.writes, bindings.written, strict=True):
        if slot not in now:
            continue
        found, before = now[slot], bindings.recorded[slot]
        name = sources[slot].name
        if name == "grad":
            gradients.append((found, wanted))
        elif found.dtype.kind == "f" and bindings.updates:
            pairs.append((found, wanted, before))
        elif not agree(found, wanted):
            return f"value of {name or 'a state'} ({_gap(found, wanted)})"
    # An activation at its kink may fall to either side by rounding, and moves single elements of
    # gradients: they are compared as a whole where some do not agree.
    largest = max((_scale(wanted) for _, wanted in gradients), default=0.0)
    if not all(agree(found, wanted, largest) for found, wanted in gradients):
        gap, size = (sum(float(np.sum(one ** 2, dtype=np.float64)) for one in some) for some in (
            [a - b for a, b in gradients], [b for _, b in gradients]))  # fmt: skip
        if not gap <= KINKS**2 * size:
            return f"set of gradients (by {gap**0.5:.2g} where they are {size**0.5:.2g})"
    # Optimisers divide gradients by their size, so that noise in a gradient that is zero becomes a
    # full step: what is compared is all that changed together.
    gap = sum(_square(a, b) for a, b, _ in pairs)
    moved = sum(_square(b, c) for _, b, c in pairs)
    if not gap <= 0.1 * moved + 1e-12 and not all(agree(a, b) for a, b, _ in pairs):
        return f"update of the parameters (by {gap**0.5:.2g} where they move by {moved**0.5:.2g})"
    return None


def _laid(slot: Any, value: Any) -> Any:
    """A recorded source as `run` takes it: with the strides that it had."""
    return float(value) if isinstance(slot, Scalar) else value


def _scale(array: np.ndarray) -> float:
    """The greatest finite magnitude."""
    wide = array.astype(np.float64)
    return float(np.max(np.abs(wide[np.isfinite(wide)]), initial=0.0))


def _square(a: np.ndarray, b: np.ndarray) -> float:
    """The square of the distance between two arrays."""
    with np.errstate(all="ignore"):
        gap = (a - b).reshape(-1)
        found = float(np.dot(gap, gap))
        if a.dtype.itemsize >= 4 and np.isfinite(found):
            return found
        return float(np.sum(gap.astype(np.float64) ** 2))


def _near(found: np.ndarray, wanted: np.ndarray, bound: float, scale: float) -> bool:
    """Whether no element is further away than `bound` times the greatest magnitude; False where
    some are not finite."""
    with np.errstate(all="ignore"):
        most = max(scale, float(np.max(np.abs(wanted))), 1e-6)
        return float(np.max(np.abs(found - wanted))) <= bound * most < np.inf


def agree(found: np.ndarray, wanted: np.ndarray, scale: float = 0.0) -> bool:
    """Whether two arrays are equal within what rounding explains, at magnitudes up to `scale`."""
    if found.shape != wanted.shape:
        return False
    if wanted.dtype.kind in "iub":
        return bool(np.mean(found != wanted) <= 0.02) if wanted.size else True
    bound = _TOLERANCE.get(wanted.dtype.name, 1e-2)
    if wanted.size > _SHORT and _near(found, wanted, bound, scale):
        return True
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    scale = max(scale, _scale(wanted))
    return bool(np.allclose(a, b, rtol=bound, atol=bound * max(scale, 1e-6), equal_nan=True))


def _gap(found: np.ndarray, wanted: np.ndarray) -> str:
    if found.shape != wanted.shape:
        return f"shape {list(found.shape)} where it is {list(wanted.shape)}"
    with np.errstate(all="ignore"):
        gap = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
    return f"by up to {np.nanmax(gap, initial=0.0):.3g}"
