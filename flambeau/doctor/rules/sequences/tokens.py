"""What models of sequences have in common: the tokens that go in, and those that are predicted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....autograd.backward import grad
from ...events import LossCall, Tokens

_MIN_VALID = 0.3  # share of the targets


@dataclass
class Pairing:
    """How targets lie beside tokens. `axis` is that of time; `shift` is 1 where the target at a
    position is the token at the next."""

    axis: int
    shift: int
    length: int


def find_pairing(call: LossCall, tokens: Tokens) -> Pairing | None:
    """Return how the targets of a cross entropy pair with tokens: the same or the next ones."""
    if call.name != "cross_entropy" or tokens.indices.ndim != 2 or call.target is None:
        return None
    target, indices = call.target._array, tokens.indices
    if target.dtype.kind != "i":
        return None
    counted = target.ravel() != call.argument("ignore_index", -100)
    for axis in (1, 0):
        steps = indices.shape[axis]
        for length in (steps, steps - 1):
            shape = (indices.shape[0], length) if axis else (length, indices.shape[1])
            if length < 3 or target.size != shape[0] * shape[1]:
                continue
            targets = target.reshape(shape)
            for shift in ((0, 1) if length == steps else (1,)):
                common = length - shift if length == steps else length
                target_part = np.take(targets, range(common), axis)
                token_part = np.take(indices, range(shift, shift + common), axis)
                valid = np.take(counted.reshape(shape), range(common), axis)
                if valid.mean() > _MIN_VALID \
                        and np.array_equal(target_part[valid], token_part[valid]) \
                        and len(np.unique(target_part[valid])) > 1:
                    return Pairing(axis, shift, length)
    return None


def sees_the_future(call: LossCall, tokens: Tokens, pair: Pairing) -> bool | None:
    """Whether the scores at the first position depend on later tokens, by their gradient. None if
    the scores have an unexpected layout."""
    scores, rows = call.input, tokens.rows
    if rows is None or not rows.requires_grad or not scores.requires_grad:
        return None
    samples = tokens.indices.shape[1 - pair.axis]
    if scores.dim() == 2 and scores.shape[0] == samples * pair.length:
        first = scores[:: pair.length] if pair.axis else scores[:samples]
    elif scores.dim() == 3 and pair.axis == 1 and scores.shape[2] == pair.length:
        first = scores[:, :, 0]
    else:
        return None
    weights = np.linspace(0.5, 1.5, int(first.shape[1]), dtype=np.float32)
    factors = first.new_tensor(weights.tolist())
    (slope,) = grad([(first * factors).sum()], [rows], retain_graph=True, allow_unused=True)
    if slope is None:
        return None
    later_slopes = np.moveaxis(slope._array, pair.axis, 0)[1:]
    present_slopes = np.moveaxis(slope._array, pair.axis, 0)[0]
    return bool(np.abs(later_slopes).max() > 1e-6 * max(np.abs(present_slopes).max(), 1e-30))
