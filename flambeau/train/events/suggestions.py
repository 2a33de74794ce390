"""What else a misspelt name may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MAX_LISTED = 20  # names that are listed when none is near


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of an error message: the names near `name`, or all there are.

    >>> suggest("valid_los", ["loss", "valid_loss"])
    ". Did you mean 'valid_loss'? There are: loss, valid_loss"
    """
    names = list(dict.fromkeys(known))
    folded = {known.lower(): known for known in reversed(names)}
    result = difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.6)
    question = ""
    if result:
        question = f". Did you mean {' or '.join(repr(folded[match]) for match in result)}?"
    if not names:
        return f"{question}. There are none"
    listed = names if len(names) <= _MAX_LISTED else [folded[match] for match in result]
    if not listed:
        return f"{question}. There are: {', '.join(names[:_MAX_LISTED])}, ..."
    if len(names) > _MAX_LISTED:
        return question
    return f"{question or '.'} There are: {', '.join(listed)}"
