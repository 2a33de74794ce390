"""Schemas of operators: PyTorch's `torch._C.FunctionSchema`, its arguments and their types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from ...tensor.devices import device
from ...tensor.dtypes import dtype
from ...tensor.layout import layout, memory_format
from ...tensor.tensor import Tensor
from .schema_compatibility import check_backward, check_forward

__all__ = ["Argument", "InferredType", "Schema", "ScriptType", "infer_type"]


Text = str  # within the class that has a method of this name


class Schema:
    """A schema such as `aten::foo.out(Tensor x, int k=2) -> Tensor`: torch._C.FunctionSchema."""

    def __init__(self, namespace: str, text: str) -> None:
        if re.search(r"=.*,\s*\.\.\.\s*\)", text.partition("->")[0]):
            raise RuntimeError(f"schemas with vararg (...) can't have default value args:\n{text}")
        if "->" not in text:
            raise RuntimeError(f"expected arrow but found 'eof' here:\n{text}")
        match = re.fullmatch(r"\s*(?:(\w+)::)?([\w.]*)\s*\((.*)\)\s*->\s*(.+?)\s*", text,
                             re.DOTALL)
        if match is None:
            raise RuntimeError(f"schema not understood: {text!r}")
        prefix, name, inner, self.return_text = (str(part or "") for part in match.groups())
        if prefix not in ("", namespace):
            raise RuntimeError(
                f"Explicitly provided namespace ({prefix}) in schema string does not match "
                f"namespace of enclosing TORCH_LIBRARY block ({namespace}).  Move this definition "
                "to the (unique) TORCH_LIBRARY block corresponding to this namespace (and consider "
                "deleting the namespace from your schema string.)")
        self.opname, _, self.overload_name = name.partition(".")
        space = f"{namespace}::" if namespace else ""
        self.name = space + self.opname
        self.text = f"{space}{name}({inner}) -> {self.return_text}"
        parts = [part.strip() for part in _split(inner)]
        self.is_vararg = parts[-1:] == ["..."]
        self.is_varret = self.return_text == "..."
        parts = parts[:-1] if self.is_vararg else parts
        starred = parts.index("*") if "*" in parts else len(parts)
        self.arguments = [_parse_argument(p, i > starred) for i, p in enumerate(parts) if p != "*"]

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @cached_property
    def returns(self) -> list[Argument]:
        """The results, whose names are often empty."""
        inner = self.return_text
        if inner.startswith("(") and inner.endswith(")"):
            inner = inner[1:-1]
        if self.is_varret:
            return []
        return [_parse_result(part.strip()) for part in _split(inner)]

    @property
    def is_mutable(self) -> bool:
        """Whether calls write into an argument."""
        return any(a.is_written for a in self.arguments)

    def is_backward_compatible_with(self, old_schema: Schema) -> bool:
        """Return whether calls of an older schema are valid for this one.

        >>> old = torch._C.parse_schema("f(int a) -> int")
        >>> torch._C.parse_schema("f(int a, int b=1) -> int").is_backward_compatible_with(old)
        True
        """
        return check_backward(self, old_schema)[0]

    def check_forward_compatible_with(self, old_schema: Schema) -> tuple[bool, str]:
        """Return whether calls of this schema are valid for an older one, and why not."""
        return check_forward(self, old_schema)

    def bind(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Return (positional, keyword-only) arguments with defaults filled in.

        Raises RuntimeError if they do not fit the schema.
        """
        name = self.text.partition("(")[0]
        first = [a for a in self.arguments if not a.kwarg_only]
        if len(args) > len(first):
            raise self._create_error(f"{name}() expected at most {len(first)} argument(s) but "
                                     f"received {len(args)} argument(s)")
        bound = dict(zip([a.name for a in first], args, strict=False))
        for key in kwargs:
            if key in bound or key not in {a.name for a in self.arguments}:
                raise self._create_error(f"Unknown keyword argument '{key}' for operator '{name}'")
        bound.update(kwargs)
        for argument in self.arguments:
            if argument.name not in bound:
                if argument.required:
                    raise self._create_error(
                        f"{name}() is missing value for argument '{argument.name}'"
                    )
                bound[argument.name] = argument.default_value
            self._check(argument, bound[argument.name], name)
        return (tuple(bound[a.name] for a in first),
                {a.name: bound[a.name] for a in self.arguments if a.kwarg_only})

    def count_named(self, kwargs: dict[str, Any]) -> int:
        """Return how many of a call's keywords name arguments that may also be positional."""
        return sum(a.name in kwargs for a in self.arguments if not a.kwarg_only) if kwargs else 0

    def pairs(self, args: tuple, kwargs: dict[str, Any]) -> Iterator[tuple[Argument, Any]]:
        """Yield each argument of the schema with its value, of what `bind` returned."""
        positional = iter(args)
        for argument in self.arguments:
            yield argument, kwargs[argument.name] if argument.kwarg_only else next(positional)

    def _check(self, argument: Argument, value: Any, name: str) -> None:
        if argument.kind == "Tensor" and not isinstance(value, Tensor):
            raise self._create_error(
                f"{name}() Expected a value of type 'Tensor' for argument '{argument.name}' but "
                f"instead found type '{type(value).__name__}'"
            )

    def _create_error(self, text: str) -> RuntimeError:
        return RuntimeError(f"{text}. Declaration: {self.text}")


class AliasInfo:
    """Which memory an argument or result shares, and whether a call writes to it."""

    def __init__(self, names: str, is_write: bool) -> None:
        self.is_write = is_write
        self.before_set = self.after_set = {n for n in names.split("|") if n}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AliasInfo) and (self.is_write, self.before_set) == (
            other.is_write, other.before_set)

    def __hash__(self) -> int:
        return hash((self.is_write, frozenset(self.before_set)))

    def __repr__(self) -> str:
        return f"AliasInfo(is_write={self.is_write}, before_set={self.before_set})"


class Argument:
    """A parameter or result of a schema.

    `kind` is its type as the schema writes it, without aliases: `Tensor?`, `int[2]`.
    """

    def __init__(self, kind: str, name: str, default: Any, required: bool, keyword: bool) -> None:
        self.kind, self.name, self.default_value = re.sub(r"\([\w|]*!?\)", "", kind), name, default
        alias = re.search(r"\(([\w|]*)(!?)\)", kind)
        self.alias_info = None if alias is None else AliasInfo(alias[1], bool(alias[2]))
        self.required, self.kwarg_only = required, keyword
        if self.N and default.__class__ in (int, bool):
            self.default_value = [default] * self.N

    def __repr__(self) -> str:
        return f"Argument(name={self.name!r}, type={self.type})"

    def has_default_value(self) -> bool:
        """Return whether calls may omit it."""
        return not self.required

    @property
    def is_written(self) -> bool:
        """Whether a call writes to it."""
        return self.alias_info is not None and self.alias_info.is_write

    @property
    def is_out(self) -> bool:
        """Return whether it is an output argument."""
        return self.kwarg_only and self.is_written

    @cached_property
    def type(self) -> ScriptType:
        """Its type in TorchScript, which represents dtypes and symbolic sizes as ints."""
        return ScriptType.of(self.kind, _SCRIPT_ATOMS)

    @cached_property
    def real_type(self) -> ScriptType:
        """Its type as declared."""
        return ScriptType.of(self.kind, {"Scalar": "number"})

    @property
    def N(self) -> int | None:
        """The length of a list that a single number can replace, or None."""
        size = re.search(r"\[(\d+)\]", self.kind)
        return int(size[1]) if size else None


class ScriptType:
    """A TorchScript type, identified by its annotation, such as `Optional[List[int]]`."""

    def __init__(self, annotation: Text) -> None:
        self._text = annotation

    @property
    def annotation_str(self) -> Text:
        """The type as Python annotates it."""
        return self._text.replace("SymInt", "int")

    @staticmethod
    def of(kind: Text, atoms: dict[Text, Text]) -> ScriptType:
        """Parse a schema's type `kind`, replacing some names."""
        if kind.endswith("?"):
            return ScriptType(f"Optional[{ScriptType.of(kind[:-1], atoms)._text}]")
        if sequence := re.fullmatch(r"(.+)\[\d*\]", kind):
            return ScriptType(f"List[{ScriptType.of(sequence[1], atoms)._text}]")
        return ScriptType(atoms.get(kind, kind))

    def __repr__(self) -> Text:
        return self.annotation_str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScriptType) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def str(self) -> Text:
        """Return the type as schemas write it, such as `int?` and `Tensor[]`."""
        outer, bracket, inner = self._text.removesuffix("]").partition("[")
        if not bracket:
            return "Scalar" if outer == "number" else outer
        parts = [ScriptType(part.strip()).str() for part in _split(inner)]
        ending = {"Optional": "?", "List": "[]"}.get(outer)
        if ending is not None:
            return parts[0] + ending
        return f"{'' if outer == 'Tuple' else outer}({', '.join(parts)})"

    def is_subtype_of(self, other: ScriptType) -> bool:
        """Return whether all values of this type are values of the other one.

        Lists are invariant, as in PyTorch.
        """
        if self == other or (self._text == "NoneType" and other._text.startswith("Optional[")):
            return True
        if other._text == "number":
            return self._text in ("int", "float", "complex")
        if other._text.startswith("Optional["):
            inner = ScriptType(self._text[9:-1]) if self._text.startswith("Optional[") else self
            return inner.is_subtype_of(ScriptType(other._text[9:-1]))
        return False

    def kind(self) -> Text:
        """Return the name of its class in PyTorch, such as `OptionalType`."""
        outer = self.annotation_str.partition("[")[0]
        return f"{_CLASSES.get(outer, outer)}Type"


_SCRIPT_ATOMS = {
    "Scalar": "number", "SymInt": "int", "SymBool": "bool", "ScalarType": "int", "Layout": "int",
    "MemoryFormat": "int", "Dimname": "str",
}
_CLASSES = {"int": "Int", "float": "Float", "bool": "Bool", "str": "String", "complex": "Complex",
            "number": "Number", "Device": "DeviceObj", "Stream": "StreamObj",
            "NoneType": "None"}


class InferredType:
    """The result of `infer_type`: a type, or the reason why there is none."""

    def __init__(self, type: ScriptType | str | None, reason: str = "") -> None:
        self._type, self._reason = (None, type) if isinstance(type, str) else (type, reason)

    def success(self) -> bool:
        """Return whether there is a type."""
        return self._type is not None

    def type(self) -> ScriptType:
        """Return the type. Raises RuntimeError if there is none."""
        if self._type is None:
            raise RuntimeError("Tried to get the type from an InferredType but the type is null. "
                               f"{self._reason}")
        return self._type

    def reason(self) -> str:
        """Return why there is no type."""
        return self._reason


_VALUES: tuple[tuple[Any, str], ...] = (
    (Tensor, "Tensor"), (bool, "bool"), (int, "int"), (float, "float"), (complex, "complex"),
    (str, "str"), (type(None), "NoneType"), ((dtype, layout, memory_format), "int"),
    (device, "Device"),
)


def infer_type(value: Any) -> InferredType:
    """Return the TorchScript type of a value: torch._C._jit_try_infer_type.

    >>> torch._C._jit_try_infer_type([1, 2]).type()
    List[int]
    """
    for classes, name in _VALUES:
        if isinstance(value, classes):
            return InferredType(ScriptType(name))
    if isinstance(value, tuple):
        parts = [infer_type(v) for v in value]
        failed = next((p for p in parts if not p.success()), None)
        inner = ", ".join(repr(p.type()) for p in parts if p.success()) or "()"
        return failed or InferredType(ScriptType(f"Tuple[{inner}]"))
    if isinstance(value, (list, dict)):
        return _infer_container(value)
    return InferredType(None, "Only tensors and (possibly nested) tuples of tensors, lists, or "
                              f"dicts are supported as inputs or outputs of traced functions, but "
                              f"instead got value of type {type(value).__name__}.")


def _infer_container(value: list | dict) -> InferredType:
    container = "List" if isinstance(value, list) else "Dictionary"
    if not value:
        return InferredType(None, f"{container} trace inputs must have elements"
                            if container == "List" else "Dictionary inputs must have entries")
    columns = [value] if isinstance(value, list) else [list(value), list(value.values())]
    parts = []
    for column in columns:
        inferred = [infer_type(v) for v in column]
        if failed := next((p for p in inferred if not p.success()), None):
            return failed
        kinds = {p.type() for p in inferred}
        if len(kinds) > 1:
            return InferredType(None, f"{container} inputs to traced functions must have "
                                      "consistent element type")
        parts.append(repr(kinds.pop()))
    name = "List" if container == "List" else "Dict"
    return InferredType(ScriptType(f"{name}[{', '.join(parts)}]"))


# ------------------------------------------------------------------------------- parsing

_CONSTANTS = {"None": None, "True": True, "False": False}


def _parse_argument(text: str, keyword: bool) -> Argument:
    declared, equals, default = text.partition("=")
    kind, _, name = declared.strip().rpartition(" ")
    return Argument(
        kind, name, _parse_value(default.strip()) if equals else None, not equals, keyword
    )


def _parse_result(text: str) -> Argument:
    kind, _, name = text.partition(" ")
    return Argument(kind, name, None, True, False)


def _parse_value(text: str) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[:1] in "\"'":
        return text[1:-1]
    if text.startswith("["):
        return [_parse_value(part.strip()) for part in _split(text[1:-1])]
    try:
        return int(text)
    except ValueError:
        return float(text) if re.fullmatch(r"[-+.\deE]+", text) else text


def _split(text: str) -> Iterator[str]:
    """Split at commas outside brackets."""
    depth = start = 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and not depth:
            yield text[start:i]
            start = i + 1
    if text[start:].strip():
        yield text[start:]
