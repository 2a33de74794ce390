"""A block of vectors transposed in registers."""

from __future__ import annotations

from llvmlite import ir

from .types import I32


def transpose_block(b: ir.IRBuilder, vectors: list[ir.Value]) -> list[ir.Value]:
    """R vectors of L lanes, R a power of two, read as a matrix R x L: the matrix L x R.

    A perfect shuffle of the whole sequence moves one bit of the position; log2(R) of them move
    the row's bits to the end.
    """
    lanes = vectors[0].type.count
    picks = []
    for half in (0, lanes // 2):
        picks.append([half + i // 2 + (lanes if i % 2 else 0) for i in range(lanes)])
    masks = [ir.Constant(ir.VectorType(I32, lanes), pick) for pick in picks]
    rounds, half = len(vectors).bit_length() - 1, len(vectors) // 2
    for _ in range(rounds):
        out = []
        for low, high in zip(vectors[:half], vectors[half:], strict=True):
            out += [b.shuffle_vector(low, high, mask) for mask in masks]
        vectors = out
    return vectors
