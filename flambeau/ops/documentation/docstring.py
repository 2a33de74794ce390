"""Compose an operator's full docstring: its own text, then arguments, result and errors.

Types, defaults, result and errors follow from the declaration. The own text may have sections
`Args:`, `Returns:` and `Raises:`, whose entries replace or precede the derived ones.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from .parameter_table import Description, describe, read_entries
from .raised_errors import list_raised_errors
from .results import describe_result

_WIDTH = 96
_SECTION = re.compile(r"^(Args|Returns|Raises):\n((?:    .*\n|\n(?=    ))*)", re.MULTILINE)
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def compose(function: Callable, source: str, paths: list[str]) -> str:
    """Compose the full docstring of the function published as `paths`."""
    operator: Any = getattr(function, "operator", None)
    module = function.__module__ if operator is None else operator.body.__module__
    text, sections = _split(inspect.cleandoc(source))
    name = paths[0].rpartition(".")[2]
    base = name.rstrip("_").removesuffix("_copy")
    parts = [text]
    for title, parameters in parse_sections(function):
        described = read_entries(_choose_sections(operator, sections).get("Args", []))
        entries = []
        for parameter in parameters:
            description = describe(parameter.name, module, described)
            description = _describe_kind(operator, parameter, description, in_place=name[-1] == "_")
            entries.append(_format_argument(parameter, description).replace("{base}", base))
        parts.append(f"{title}:\n" + "\n".join(map(_wrap_entry, entries)))
    kind, sentence = describe_result(function, operator, paths, module)
    returned = sections.get("Returns") or [_wrap_entry(f"{kind}: {sentence}")]
    parts.append("Returns:\n" + "\n".join(returned))
    errors = sections.get("Raises", [])
    errors += [
        _wrap_entry(_insert_name(entry, name)) for entry in list_raised_errors(function, operator)
    ]
    if errors:
        parts.append("Raises:\n" + "\n".join(errors))
    return "\n\n".join(part for part in parts if part)


def parse_sections(function: Callable) -> list[tuple[str, list[inspect.Parameter]]]:
    """Return the sections of a function's parameters: their titles and parameters."""
    parameters = list(inspect.signature(function).parameters.values())
    keyword = [p for p in parameters if p.kind is _KEYWORD]
    positional = [p for p in parameters if p.kind is not _KEYWORD]
    sections = [("Args", positional), ("Keyword args", keyword)]
    return [(title, chosen) for title, chosen in sections if chosen]


def _choose_sections(
    operator: Any, sections: dict[str, list[str]]
) -> dict[str, list[str]]:
    """Return the sections, taken from the operator's docstring if the twin's one line has none."""
    return sections if operator is None or sections else _split(operator.doc)[1]


def _split(text: str) -> tuple[str, dict[str, list[str]]]:
    """Split a docstring into the text without sections, and the lines of each section."""
    sections = {}
    for match in _SECTION.finditer(text + "\n"):
        sections[match[1]] = [line for line in match[2].splitlines() if line.strip()]
    rest = _SECTION.sub("", text + "\n")
    return re.sub(r"\n{3,}", "\n\n", rest).strip(), sections


def _describe_kind(
    operator: Any, parameter: inspect.Parameter, description: Description, in_place: bool
) -> Description:
    """Return the description, extended by what the declaration says: tensors and operands."""
    names = () if operator is None else getattr(operator, "tensor_names", ())
    if operator is None or parameter.name not in names:
        if parameter.name == "self" and in_place:
            return Description("Tensor", "The tensor to change.")
        return description
    note = next(str(p.annotation) for p in operator.parameters if p.name == parameter.name)
    kind = "Tensor or number" if "Number" in note else "Tensor"
    if "Sequence" in note:
        kind = "sequence of Tensors"
    sentence = description.sentence
    if len(names) > 1 and sentence == "The input, of any shape.":
        sentence = "The first operand, of any shape."
    return Description(kind, sentence)


def _format_argument(parameter: inspect.Parameter, description: Description) -> str:
    """Format `name (type, optional): sentence Default: value.`"""
    kind, sentence = description
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
        typed = "" if kind in ("arguments", "object") else f" ({kind})"
        return f"{stars}{parameter.name}{typed}: {sentence}"
    default = parameter.default
    if default is not parameter.empty:
        kind += ", optional"
        if default is not None and "Default:" not in sentence:
            sentence += f" Default: {default!r}."
    return f"{parameter.name} ({kind}): {sentence}"


def _insert_name(entry: str, name: str) -> str:
    """Insert the operator's name in an error message that begins with it."""
    return re.sub(r"^(\w+: (?:torch\.)?)\{name\}", rf"\g<1>{name}", entry)


def _wrap_entry(entry: str) -> str:
    """Wrap an entry below its section's title: indent by four spaces, further lines by eight."""
    lines, line = [], "    "
    for word in entry.split():
        if len(line) + len(word) > _WIDTH and line.strip():
            lines.append(line.rstrip())
            line = " " * 8
        line += f"{word} "
    return "\n".join([*lines, line.rstrip()])
