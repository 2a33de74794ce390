"""Suggest names for a misspelled one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MAX_LISTED = 20  # names, when none is close


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message: the names close to `name`, or all.

    >>> suggest("valid_los", ["loss", "valid_loss"])
    ". Did you mean 'valid_loss'? There are: loss, valid_loss"
    """
    names = list(dict.fromkeys(known))
    folded = {known.lower(): known for known in reversed(names)}
    matches = difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.6)
    question = ""
    if matches:
        question = f". Did you mean {' or '.join(repr(folded[match]) for match in matches)}?"
    if not names:
        return f"{question}. There are none"
    listed = names if len(names) <= _MAX_LISTED else [folded[match] for match in matches]
    if not listed:
        return f"{question}. There are: {', '.join(names[:_MAX_LISTED])}, ..."
    if len(names) > _MAX_LISTED:
        return question
    return f"{question or '.'} There are: {', '.join(listed)}"
