"""infer_schema: the schema of an operator from the annotations of the function that computes it."""

from __future__ import annotations

import collections.abc
import inspect
import typing
from collections.abc import Callable, Iterable
from types import GenericAlias
from typing import Any, NoReturn

from ...tensor.devices import device
from ...tensor.dtypes import dtype
from ...tensor.tensor import Tensor

__all__ = ["SUPPORTED_PARAM_TYPES", "SUPPORTED_RETURN_TYPES", "infer"]

_Optional: Any = typing.Optional
_Union: Any = typing.Union
_Number: Any = int | float | bool


def _list_types(kind: Any) -> list[Any]:
    """Return the types that stand for a list of `kind`."""
    return [typing.Sequence[kind], typing.List[kind],  # noqa: UP006
            GenericAlias(collections.abc.Sequence, (kind,)), GenericAlias(list, (kind,))]


def _derive_types() -> dict[Any, str]:
    """Return the types of parameters, with those of a schema."""
    # By type: its name, and whether there are lists, lists of optional values, optional lists.
    table: list[tuple[Any, str, bool, bool, bool]] = [
        (Tensor, "Tensor", True, True, False), (int, "SymInt", True, False, True),
        (float, "float", True, False, True), (bool, "bool", True, False, True),
        (str, "str", False, False, False), (_Number, "Scalar", True, False, False),
        (dtype, "ScalarType", False, False, False), (device, "Device", False, False, False),
    ]
    result: dict[Any, str] = {}
    for kind, name, lists, optional_items, optional_lists in table:
        result |= {kind: name, _Optional[kind]: f"{name}?"}
        if lists:
            result |= dict.fromkeys(_list_types(kind), f"{name}[]")
        if optional_items:
            result |= dict.fromkeys(_list_types(_Optional[kind]), f"{name}?[]")
        if optional_lists:
            result |= {_Optional[listed]: f"{name}[]?" for listed in _list_types(kind)}
    return result


SUPPORTED_PARAM_TYPES = _derive_types()
SUPPORTED_RETURN_TYPES: dict[Any, str] = {
    Tensor: "Tensor", typing.List[Tensor]: "Tensor[]", list[Tensor]: "Tensor[]",  # noqa: UP006
    int: "SymInt", float: "float", bool: "bool", _Number: "Scalar",
}


def infer(function: Callable, mutated: str | Iterable[str], name: str = "") -> str:
    """Return the schema that a function's annotations say, as `name(Tensor x) -> Tensor`.

    `mutated`: the names of the parameters that it writes, or "unknown" for all tensors.
    Raises ValueError for annotations or defaults that no schema has.
    """
    return f"{name}{_Inference(function, mutated).infer()}"


class _Inference:
    """The inference of one schema."""

    def __init__(self, function: Callable, mutated: str | Iterable[str]) -> None:
        if isinstance(mutated, str) and mutated != "unknown":
            raise ValueError(
                "mutates_args must either be a sequence of the names of the arguments that are "
                "mutated or the string 'unknown'. ")
        self.mutated = mutated if isinstance(mutated, str) else tuple(mutated)
        self.signature = inspect.signature(function)
        self.names = inspect.unwrap(function).__globals__

    def infer(self) -> str:
        """Return the parameters and results of the schema."""
        parts: list[str] = []
        for index, parameter in enumerate(self.signature.parameters.values()):
            if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
                parts.append("*")
            parts.append(self._write_parameter(index, parameter))
        unseen = () if self.mutated == "unknown" else \
            set(self.mutated) - self.signature.parameters.keys()
        if unseen:
            self._refuse(f"{unseen} in mutates_args were not found in the custom op's signature. "
                         "mutates_args should contain the names of all args that the custom op "
                         "mutates, or just the string 'unknown' if you don't know.")
        returned = self._evaluate(self.signature.return_annotation)
        return f"({', '.join(parts)}) -> {self._write_results(returned)}"

    def _refuse(self, problem: str) -> NoReturn:
        raise ValueError(f"infer_schema(func): {problem} Got func with signature {self.signature})")

    def _write_parameter(self, index: int, parameter: inspect.Parameter) -> str:
        name = parameter.name
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            self._refuse("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.annotation is parameter.empty:
            self._refuse(f"Parameter {name} must have a type annotation.")
        note = self._evaluate(parameter.annotation)
        kind = SUPPORTED_PARAM_TYPES.get(note)
        if kind is None:
            self._refuse_type(name, parameter.annotation, note)
        is_tensor = kind.startswith("Tensor")
        if self.mutated != "unknown" and name in self.mutated and not is_tensor:
            self._refuse(f"Parameter {name} is in mutable_args but only Tensors or collections of "
                         "Tensors can be mutated")
        if is_tensor and (self.mutated == "unknown" or name in self.mutated):
            kind = f"Tensor(a{index}!){kind[len('Tensor'):]}"
        if parameter.default is parameter.empty:
            return f"{kind} {name}"
        return f"{kind} {name}={self._write_default(name, parameter.default)}"

    def _write_default(self, name: str, default: Any) -> str:
        if default is None or isinstance(default, (int, float, bool)):
            return str(default)
        if isinstance(default, (str, device)):
            return f'"{default}"'
        if isinstance(default, dtype):
            return str(default).removeprefix("torch.")
        self._refuse(f"Parameter {name} has an unsupported default value type {type(default)}. "
                     "Please file an issue on GitHub so we can prioritize this.")

    def _refuse_type(self, name: str, written: Any, note: Any) -> NoReturn:
        valid = f"The valid types are: {SUPPORTED_PARAM_TYPES.keys()}."
        if typing.get_origin(note) is not tuple:
            self._refuse(f"Parameter {name} has unsupported type {written}. {valid}")
        parts = typing.get_args(note)
        listed: Any = list
        if parts:
            single = len(parts) == 1 or (len(parts) == 2 and parts[1] is Ellipsis)
            listed = GenericAlias(list, (parts[0] if single else _Union[tuple(parts)],))
        example = f"For example, {listed}.\n\n" if listed in SUPPORTED_PARAM_TYPES else "\n\n"
        self._refuse(
            f"Parameter {name} has unsupported type {written}. We do not support Tuple inputs in "
            f"schema. As a workaround, please try to use List instead. {example}{valid}")

    def _evaluate(self, note: Any) -> Any:
        """Replace annotations that are texts, also inside of others, by what they name."""
        if isinstance(note, str):
            try:
                return eval(note, self.names)
            except NameError as error:
                self._refuse(
                    f"Unsupported type annotation {note}. It is not a type. ({error}). If you are "
                    "using 'from __future__ import annotations', note that annotations are "
                    "evaluated lazily as strings; make sure all types referenced in annotations "
                    "are importable at module scope, not only inside a local function.")
            except Exception as error:
                self._refuse(f"Unsupported type annotation {note}. It is not a type. "
                             f"({type(error).__name__}: {error})")
        origin, parts = typing.get_origin(note), typing.get_args(note)
        if origin is not None and any(isinstance(part, str) for part in parts):
            return GenericAlias(origin, tuple(map(self._evaluate, parts)))
        return note

    def _write_results(self, note: Any) -> str:
        if note is None or note is type(None):
            return "()"
        if note is inspect.Parameter.empty:
            self._refuse("No return type annotation was provided. Please add one.")
        is_tuple = typing.get_origin(note) is tuple
        kinds = [SUPPORTED_RETURN_TYPES.get(part)
                 for part in (typing.get_args(note) if is_tuple else (note,))]
        if None in kinds:
            self._refuse(f"Return has unsupported type {note}. The valid types are: "
                         f"{SUPPORTED_RETURN_TYPES}.")
        text = ", ".join(map(str, kinds))
        if not is_tuple:
            return text
        return f"(({text}))" if len(kinds) == 1 else f"({text})"
