"""Argument errors of in-place methods, as PyTorch words them: positions and counts leave out
`self`, and functions without arguments are named by their class."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .operator import Operator

_MUST_BE = re.compile(r"\(\): argument '(\w+)' \(position (\d+)\)( must be .*)", re.DOTALL)
_COUNT = re.compile(r"\(\) (takes|missing) .*")
_OVERLOADS = re.compile(r"(\(\) received an invalid .* - got \()Tensor, (\w+)(\).*)", re.DOTALL)


def restate_for_method(error: TypeError, operator: Operator, args: tuple, kwargs: dict) -> None:
    """Reword the error that an operator's function raised, called by its in-place twin."""
    name, text = operator.name.lstrip("_"), str(error)
    for prefix in (operator.name, name):
        if not text.startswith(prefix + "("):
            continue
        rest = text[len(prefix):]
        for restate in (_restate_kind, _restate_count, _restate_overloads):
            if (message := restate(f"{name}_", rest, operator, args, kwargs)) is not None:
                error.args = (message,)
                return
        error.args = (f"{name}_{rest}",)
        return


def _restate_kind(
    name: str, rest: str, operator: Operator, args: tuple, kwargs: dict
) -> str | None:
    match = _MUST_BE.fullmatch(rest)
    if match is None:
        return None
    argument, position, end = match.groups()
    place = "" if argument in kwargs else f" (position {int(position) - 1})"
    return f"{name}(): argument '{argument}'{place}{end}"


def _restate_count(
    name: str, rest: str, operator: Operator, args: tuple, kwargs: dict
) -> str | None:
    if _COUNT.fullmatch(rest) is None:
        return None
    parameters, came = operator.parameters[1:], len(args)
    if not parameters:
        return f"Tensor.{name}() takes no arguments ({came} given)"
    if any("Number" in str(p.annotation) or p.kind is p.KEYWORD_ONLY for p in parameters):
        return None  # PyTorch lists its overloads
    required = [p.name for p in parameters if p.default is p.empty]
    absent = [n for n in required[came:] if n not in kwargs]
    if absent:  # PyTorch's plural
        plural = "s" * (len(absent) == 1)
        listed = ", ".join(f'"{n}"' for n in absent)
        return f"{name}() missing {len(absent)} required positional argument{plural}: {listed}"
    most = len(parameters)
    least = f"from {len(required)} to " if len(required) < most else ""
    limit = f"{least}{most} positional argument{'s' * bool(least or most > 1)}"
    return f"{name}() takes {limit} but {came} {'was' if came == 1 else 'were'} given"


def _restate_overloads(
    name: str, rest: str, operator: Operator, args: tuple, kwargs: dict
) -> str | None:
    match = _OVERLOADS.fullmatch(rest)
    if match is None:
        return None
    start, kind, end = match.groups()
    got, wrong = (f"other={kind}, ", f"!other={kind}!, ") if kwargs else (kind, f"!{kind}!")
    end = end.replace("(Tensor input, ", "(").replace(", *, Tensor out = None", "")
    reason = f"      didn't match because some of the arguments have invalid types: ({wrong})\n"
    lines = [line + reason * line.startswith(" * ") for line in end.splitlines(keepends=True)]
    return f"{name}{start}{got}{''.join(lines)}"
