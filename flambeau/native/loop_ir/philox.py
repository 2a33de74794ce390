"""Philox-4x32-10 (Salmon et al. 2011): random words from a counter and a key, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
STEPS = (0x9E3779B9, 0xBB67AE85)  # added to the key's words each round
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


def philox_words(counter: Any, stream: Any, key: Any) -> tuple[np.ndarray, ...]:
    """Return the four words, as uint64, for counter words 0 and 1, 2 and 3, and key words 0 and 1;
    each uint64 holds its pair's first word in the low half."""
    c0, c1, c2, c3, k0, k1 = (
        part for words in (counter, stream, key)
        for part in (np.asarray(words, np.uint64) & _LOW, np.asarray(words, np.uint64) >> _HALF)
    )
    first, second = map(np.uint64, MULTIPLIERS)
    for _ in range(ROUNDS):
        p, q = c0 * first, c2 * second
        c0, c1, c2, c3 = (q >> _HALF) ^ c1 ^ k0, q & _LOW, (p >> _HALF) ^ c3 ^ k1, p & _LOW
        k0, k1 = (k0 + np.uint64(STEPS[0])) & _LOW, (k1 + np.uint64(STEPS[1])) & _LOW
    return c0, c1, c2, c3


def philox(counter: Any, stream: Any, key: Any) -> np.ndarray:
    """Return the first two words as one uint64, the first in the low half: `Scalar.PHILOX`."""
    first, second, *_ = philox_words(counter, stream, key)
    return first | (second << _HALF)


def philox_word(index: Any, stream: Any, key: Any) -> np.ndarray:
    """Return one uint32 word per index: `Scalar.PHILOX_WORD`.

    Sixteen indices share four counters: index 16 g + 4 w + c has word w of counter 4 g + c, so
    neighboring words are computed together.
    """
    index = np.asarray(index, np.uint64)
    two, three = np.uint64(2), np.uint64(3)
    words = philox_words(((index >> np.uint64(4)) << two) | (index & three), stream, key)
    column = ((index >> two) & three).astype(np.int64)
    return np.choose(column, words).astype(np.uint32)
