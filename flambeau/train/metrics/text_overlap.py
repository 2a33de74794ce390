"""Overlap of texts in n-grams: BLEU of translations, ROUGE of summaries.

Texts are strings, or lists of tokens; a target may be a list of several references.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .metric import Metric, Value

Tokens = Sequence[str]


def _count_grams(tokens: Tokens, length: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(tokens[i:] for i in range(length)), strict=False))


class BLEU(Metric):
    """The BLEU score of a corpus (Papineni et al. 2002), from 0 to 1, without smoothing.

    Strings are split at spaces, unless `tokenize` says otherwise.

    >>> bleu = BLEU()
    >>> bleu.update(["the cat sat on the mat"], ["the cat sat on a mat"])
    >>> round(bleu.compute(), 4)
    0.5373
    """

    states = ("matches", "possible", "lengths")
    higher_is_better = True

    def __init__(
        self, n: int = 4, *, tokenize: Callable[[str], list[str]] = str.split, name: str = "bleu"
    ) -> None:
        self.n, self.tokenize, self.name = n, tokenize, name
        self.reset()

    def reset(self) -> None:
        """Forget all texts."""
        self.matches, self.possible = np.zeros(self.n, np.int64), np.zeros(self.n, np.int64)
        self.lengths = np.zeros(2, np.int64)  # of the candidates, of their nearest references

    def update(self, output: Sequence[Any], target: Sequence[Any]) -> None:
        """Add candidates and their references: a text each, or a list of texts each."""
        for candidate, references in zip(output, target, strict=True):
            words = self._tokenize(candidate)
            several = [references] if isinstance(references, str) else references
            if several and not isinstance(references, str) and not _are_texts(several):
                several = [references]  # one reference, as tokens
            tokens = [self._tokenize(reference) for reference in several]
            nearest = min((abs(len(t) - len(words)), len(t)) for t in tokens)[1]
            self.lengths += (len(words), nearest)
            for i in range(self.n):
                counts = _count_grams(words, i + 1)
                reference_counts: Counter[tuple[str, ...]] = Counter()
                for reference in tokens:
                    reference_counts |= _count_grams(reference, i + 1)
                self.matches[i] += (counts & reference_counts).total()
                self.possible[i] += max(len(words) - i, 0)

    def _tokenize(self, text: Any) -> Tokens:
        return self.tokenize(text) if isinstance(text, str) else list(text)

    def compute(self) -> Value:
        """The score; NaN before the first text, 0 where some length of n-gram never matches."""
        length, nearest = map(int, self.lengths)
        if not nearest:
            return self._get_undefined()
        if not self.matches.all():
            return 0.0
        precision = float(np.log(self.matches / self.possible).mean())
        brevity = min(0.0, 1 - nearest / length)
        return float(np.exp(precision + brevity))


def _are_texts(references: Sequence[Any]) -> bool:
    """Whether the value is several references: strings with spaces, or lists of tokens."""
    return not all(isinstance(r, str) for r in references) or any(" " in r for r in references)


class ROUGE(Metric):
    """ROUGE's F-measure (Lin 2004): "rouge1" and "rouge2" of n-grams, "rougeL" of the longest
    common subsequence. The mean over pairs; words are lower-case letters and digits.

    >>> rouge = ROUGE("rouge1")
    >>> rouge.update(["the cat sat"], ["the cat was sitting"])
    >>> round(rouge.compute(), 4)
    0.5714
    """

    states = ("total", "count")
    higher_is_better = True

    def __init__(self, kind: str = "rougeL", *, name: str | None = None) -> None:
        if not re.fullmatch(r"rouge([1-9]|L)", kind):
            raise ValueError(f"ROUGE: kind must be rouge1 to rouge9 or rougeL, not {kind!r}")
        self.kind, self.name = kind, name or kind
        self.reset()

    def reset(self) -> None:
        """Forget all texts."""
        self.total, self.count = 0.0, 0

    def update(self, output: Sequence[Any], target: Sequence[Any]) -> None:
        """Add candidates and a reference for each."""
        for candidate, reference in zip(output, target, strict=True):
            self.total += self._score(_split_words(candidate), _split_words(reference))
            self.count += 1

    def _score(self, candidate: Tokens, reference: Tokens) -> float:
        if self.kind == "rougeL":
            common = _measure_longest_common(candidate, reference)
            sizes = len(candidate), len(reference)
        else:
            length = int(self.kind[5:])
            a, b = _count_grams(candidate, length), _count_grams(reference, length)
            common, sizes = (a & b).total(), (a.total(), b.total())
        if not common:
            return 0.0
        precision, recall = common / sizes[0], common / sizes[1]
        return 2 * precision * recall / (precision + recall)

    def compute(self) -> Value:
        """The mean, from 0 to 1; NaN before the first text."""
        return self.total / self.count if self.count else self._get_undefined()


def _split_words(text: Any) -> Tokens:
    return re.findall(r"[a-z0-9]+", text.lower()) if isinstance(text, str) else list(text)


def _measure_longest_common(a: Tokens, b: Tokens) -> int:
    """The length of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for word in a:
        before = 0
        for j, other in enumerate(b, 1):
            before, row[j] = row[j], before + 1 if word == other else max(row[j], row[j - 1])
    return row[-1]
