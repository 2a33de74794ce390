"""Operators of the user's own: `torch.ops.mylib.foo`, which torch.library defines.

An operator has a schema, kernels by dispatch key, and what is known of its shapes and derivative.
Calls go to the kernel for the CPU; on meta tensors to the one that gives only shapes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from ...autograd.function import Function
from ...autograd.mode import MODE
from ...tensor.tensor import Tensor
from ...tensor.tree import leaves_of
from ...tensor.windows.batch import innermost_batch
from ..core.autocast import AUTOCAST, STATE
from ..interception import torch_dispatch
from ..interception.batched_functions import by_own_rule

# Keys under which a kernel counts as the CPU's, the most special one first.
CPU_KEYS = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "")
AUTOGRAD_KEYS = ("AutogradCPU", "Autograd")


class Schema:
    """`foo(Tensor x, int k=2) -> Tensor`, taken apart as far as calls need it."""

    def __init__(self, namespace: str, text: str) -> None:
        if "->" not in text:
            raise RuntimeError(f"expected arrow but found 'eof' here:\n{text}")
        match = re.fullmatch(r"\s*(?:(\w+)::)?([\w.]*)\s*\((.*)\)\s*->\s*(.+?)\s*", text,
                             re.DOTALL)
        if match is None:
            raise RuntimeError(f"schema not understood: {text!r}")
        prefix, name, inner, self.returns = (str(part or "") for part in match.groups())
        if prefix not in ("", namespace):
            raise RuntimeError(
                f"Explicitly provided namespace ({prefix}) in schema string does not match "
                f"namespace of enclosing TORCH_LIBRARY block ({namespace}).  Move this definition "
                "to the (unique) TORCH_LIBRARY block corresponding to this namespace (and consider "
                "deleting the namespace from your schema string.)")
        self.name, _, self.overload = name.partition(".")
        self.text = f"{namespace}::{name}({inner}) -> {self.returns}"
        parts = [part.strip() for part in _split(inner)]
        starred = parts.index("*") if "*" in parts else len(parts)
        self.arguments = [_argument(p, i > starred) for i, p in enumerate(parts) if p != "*"]

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def bind(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Return all arguments by position, keyword-only ones by name; fill in defaults."""
        name = self.text.partition("(")[0]
        first = [a for a in self.arguments if not a.keyword]
        if len(args) > len(first):
            raise self._error(f"{name}() expected at most {len(first)} argument(s) but received "
                              f"{len(args)} argument(s)")
        bound = dict(zip([a.name for a in first], args, strict=False))
        for key in kwargs:
            if key in bound or key not in {a.name for a in self.arguments}:
                raise self._error(f"Unknown keyword argument '{key}' for operator '{name}'")
        bound.update(kwargs)
        for argument in self.arguments:
            if argument.name not in bound:
                if argument.required:
                    raise self._error(f"{name}() is missing value for argument '{argument.name}'")
                bound[argument.name] = argument.default
            self._check(argument, bound[argument.name], name)
        return (tuple(bound[a.name] for a in first),
                {a.name: bound[a.name] for a in self.arguments if a.keyword})

    def _check(self, argument: Argument, value: Any, name: str) -> None:
        if argument.kind == "Tensor" and not isinstance(value, Tensor):
            raise self._error(
                f"{name}() Expected a value of type 'Tensor' for argument '{argument.name}' but "
                f"instead found type '{type(value).__name__}'"
            )

    def _error(self, text: str) -> RuntimeError:
        return RuntimeError(f"{text}. Declaration: {self.text}")


class Argument:
    """A parameter of a schema."""

    def __init__(self, kind: str, name: str, default: Any, required: bool, keyword: bool) -> None:
        self.kind, self.name, self.default = re.sub(r"\(\w*!?\)", "", kind), name, default
        self.is_written, self.is_alias = "!" in kind, "(" in kind
        self.required, self.keyword = required, keyword


_CONSTANTS = {"None": None, "True": True, "False": False}


def _argument(text: str, keyword: bool) -> Argument:
    declared, equals, default = text.partition("=")
    kind, _, name = declared.strip().rpartition(" ")
    return Argument(kind, name, _value(default.strip()) if equals else None, not equals, keyword)


def _value(text: str) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[:1] in "\"'":
        return text[1:-1]
    if text.startswith("["):
        return [_value(part.strip()) for part in _split(text[1:-1])]
    try:
        return int(text)
    except ValueError:
        return float(text) if re.fullmatch(r"[-+.\deE]+", text) else text


def _split(text: str) -> Iterator[str]:
    """The parts between commas that are in no brackets."""
    depth = start = 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and not depth:
            yield text[start:i]
            start = i + 1
    if text[start:].strip():
        yield text[start:]


class CustomOperator:
    """One overload of a user-defined operator; calling it dispatches."""

    def __init__(self, namespace: str, schema: Schema) -> None:
        self.namespace, self._schema = namespace, schema
        self._opname, self._overloadname = schema.name, schema.overload or "default"
        self.__name__ = f"{schema.name}.{self._overloadname}"
        self.__module__ = f"torch._ops.{namespace}"
        self.kernels: dict[str, Callable] = {}
        self.fake: Callable | None = None
        self.backward: Callable | None = None
        self.setup_context: Callable | None = None
        self.opaque = False  # made by custom_op: what its kernel does is not recorded
        self.vmap: Callable | None = None
        self._node: Any = None

    def name(self) -> str:
        """`namespace::name`, with the overload's name if it has one."""
        rest = f".{self._schema.overload}" if self._schema.overload else ""
        return f"{self.namespace}::{self._opname}{rest}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self._opname}', " \
               f"overload='{self._overloadname}')>"

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = self._schema.bind(args, kwargs)
        tensors = leaves_of(Tensor, (args, kwargs))
        if any(t.device.type == "meta" for t in tensors):
            return self._shapes(args, kwargs)
        if self.vmap is not None and (batch := innermost_batch((*args, *kwargs.values()))):
            if MODE.grad and any(t.requires_grad for t in tensors):
                raise RuntimeError(
                    "In order to use an autograd.Function with functorch transforms (vmap, grad, "
                    "jvp, jacrev, ...), it must override the setup_context staticmethod. For more "
                    "details, please see https://pytorch.org/docs/main/notes/extending.func.html")
            return by_own_rule(self.vmap, batch, args, kwargs)
        if AUTOCAST.count and STATE.enabled and "AutocastCPU" in self.kernels:
            return self.kernels["AutocastCPU"](*args, **kwargs)
        for key in AUTOGRAD_KEYS:
            if key in self.kernels:
                return self.kernels[key](*args, **kwargs)
        wanted = MODE.grad and any(t.requires_grad for t in tensors)
        if wanted and (self.opaque or self.backward is not None):
            return self._recorded(args, kwargs)
        return self.compute(args, kwargs)

    def compute(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Return the kernel's result, or ask the mode or class below autograd."""
        if torch_dispatch.is_asked(args, kwargs):
            return torch_dispatch.hand_over(self, args, kwargs)
        return self.kernel()(*args, **kwargs)

    def kernel(self) -> Callable:
        """Return the CPU kernel; NotImplementedError if none is registered."""
        for key in CPU_KEYS:
            if key in self.kernels:
                return self.kernels[key]
        raise NotImplementedError(
            f"Could not run '{self.name()}' with arguments from the 'CPU' backend: it has kernels "
            f"for {sorted(self.kernels) or 'none'}"
        )

    def _shapes(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        fake = self.fake or self.kernels.get("Meta")
        fake = fake or self.kernels.get("CompositeImplicitAutograd")
        if fake is None:
            raise NotImplementedError(
                f"{self.name()}: attempted to run this operator with Meta tensors, but there was "
                "no fake impl or Meta kernel registered."
            )
        return fake(*args, **kwargs)

    def _recorded(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        if self._node is None:
            self._node = _node_of(self)
        return self._node.apply(kwargs, *args)


def _node_of(operator: CustomOperator) -> type:
    """The autograd Function of an operator: its kernel forward, the user's formula backward."""

    def forward(ctx: Any, kwargs: dict[str, Any], *args: Any) -> Any:
        y = operator.compute(tuple(map(_plain, args)), kwargs)
        if operator.setup_context is not None:
            named = {"keyword_only_inputs": kwargs} if kwargs else {}
            operator.setup_context(ctx=ctx, inputs=args, output=y, **named)
        return tuple(y) if isinstance(y, list) else y

    def backward(ctx: Any, *g: Any) -> Any:
        if operator.backward is None:
            raise RuntimeError(
                f"Trying to backward through {operator} but no autograd formula was "
                "registered. Please use register_autograd to add one."
            )
        result = operator.backward(ctx, *g)
        return (None, *(result if isinstance(result, tuple) else (result,)))

    name = f"{operator.namespace}_{operator._opname}_{operator._overloadname}"
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(f"GeneratedBackwardFor_{name}", (Function,), body)


def _plain(value: Any) -> Any:
    """An argument as a kernel gets it: no tensor of it requires grad."""
    if isinstance(value, Tensor):
        return value.detach()
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


class CustomPacket:
    """An operator with its overloads as attributes; calls go to the first that fits."""

    def __init__(self, namespace: str, name: str) -> None:
        self._qualified_op_name = f"{namespace}::{name}"
        self.__name__ = name
        self._operators: dict[str, Any] = {}

    def add(self, operator: CustomOperator) -> None:
        """Add an overload."""
        self._operators[operator._overloadname] = operator

    def overloads(self) -> list[str]:
        """Return the overloads' names."""
        return list(self._operators)

    def __getattr__(self, name: str) -> CustomOperator:
        result = self.__dict__.get("_operators", {})
        if name in result:
            return result[name]
        raise AttributeError(
            f"The underlying op of '{self.__dict__.get('_qualified_op_name')}' has no overload "
            f"name '{name}'"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for value in args:  # what records calls, such as a proxy, is no argument of a schema
            kind = type(value)
            if not isinstance(value, Tensor) and hasattr(kind, "__torch_function__"):
                return kind.__torch_function__(self, (kind,), args, kwargs)
        last = None
        for operator in self._operators.values():
            try:
                operator._schema.bind(args, kwargs)
            except RuntimeError as error:
                last = error
                continue
            return operator(*args, **kwargs)
        raise last or RuntimeError(f"{self._qualified_op_name} has no overload")

    def __str__(self) -> str:
        return self._qualified_op_name.replace("::", ".")

    __repr__ = __str__


class Namespace:
    """A namespace such as `torch.ops.mylib`, with operators as attributes."""

    def __init__(self, name: str) -> None:
        self.__name__ = f"torch.ops.{name}"
        self._packets: dict[str, Any] = {}

    def __getattr__(self, name: str) -> CustomPacket:
        packets = self.__dict__.get("_packets", {})
        if name in packets:
            return packets[name]
        namespace = self.__dict__.get("__name__", "").rpartition(".")[2]
        raise AttributeError(f"'_OpNamespace' '{namespace}' object has no attribute '{name}'")

    def __dir__(self) -> list[str]:
        return list(self._packets)


NAMESPACES: dict[str, Namespace] = {}


def namespace(name: str) -> Namespace:
    """Return the namespace of this name, creating it on first use."""
    if name not in NAMESPACES:
        NAMESPACES[name] = Namespace(name)
    return NAMESPACES[name]


def define(space: str, text: str) -> CustomOperator:
    """Define an operator; RuntimeError if its name and overload already exist."""
    operator = CustomOperator(space, Schema(space, text))
    packets = namespace(space)._packets
    packet = packets.setdefault(operator._opname, CustomPacket(space, operator._opname))
    if operator._overloadname in packet._operators:
        raise RuntimeError(
            f"Tried to register an operator ({operator._schema}) with the same name and overload "
            "name multiple times."
        )
    packet.add(operator)
    return operator


def find(qualified: str) -> CustomOperator:
    """Return the operator `namespace::name`; RuntimeError if there is none."""
    space, _, name = qualified.partition("::")
    name, _, overload = name.partition(".")
    packet = namespace(space)._packets.get(name)
    if packet is None or (overload or "default") not in packet._operators:
        raise RuntimeError(f"operator {qualified} does not exist")
    return packet._operators[overload or "default"]


# ------------------------------------------------------------------- schemas of annotated functions

_SINGLE = {"Tensor": "Tensor", "int": "SymInt", "float": "float", "bool": "bool", "str": "str",
           "dtype": "ScalarType", "device": "Device"}


def infer(function: Callable, mutated: Any, name: str = "") -> str:
    """Return the schema given by a function's annotations, as `name(Tensor x) -> Tensor`."""
    import typing

    signature = inspect.signature(function)
    hints = typing.get_type_hints(function)
    parts: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.name not in hints:
            raise ValueError(f"infer_schema(func): Parameter {parameter.name} must have a type "
                             f"annotation. Got func with signature {signature})")
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        kind = _kind(hints[parameter.name])
        if mutated == "unknown" or parameter.name in mutated:
            kind = kind.replace("Tensor", f"Tensor(a{len(parts)}!)")
        default = "" if parameter.default is parameter.empty else f"={_text(parameter.default)}"
        parts.append(f"{kind} {parameter.name}{default}")
    return f"{name}({', '.join(parts)}) -> {_return_values(hints.get('return', type(None)))}"


def _text(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _kind(note: Any) -> str:
    import types
    import typing

    origin, inner = typing.get_origin(note), typing.get_args(note)
    if origin in (typing.Union, types.UnionType):
        rest = [item for item in inner if item is not type(None)]
        if len(rest) == 1:
            return _kind(rest[0]) + "?"
        return "Scalar?" if len(rest) < len(inner) else "Scalar"
    if origin is not None and inner:
        return _kind(inner[0]) + "[]"
    known = _SINGLE.get(getattr(note, "__name__", ""))
    if known is None:
        raise ValueError(f"infer_schema(func): unsupported type {note}")
    return known


def _return_values(note: Any) -> str:
    import typing

    if note is type(None):
        return "()"
    if typing.get_origin(note) is tuple:
        return f"({', '.join(_kind(arg) for arg in typing.get_args(note))})"
    return _kind(note)
