"""CodeWriter: write a graph's statements node by node, and collect the globals they need."""

from __future__ import annotations

import enum
import inspect
import pprint
import re
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._namespace.symbolic_numbers import SymBool, SymFloat
from ..ops.core import aten
from ..tensor import dtypes
from ..tensor.devices import device as device_type
from ..tensor.symbolic_length import SymInt
from ..tensor.tensor import Tensor
from ._compatibility import compatibility
from .namespace import Namespace, custom_builtins
from .node import Node
from .qualified_names import is_from_torch, qualified_name, torch_module, type_repr
from .stack_summary import parse_stack_trace
from .tensor_type import TensorType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .codegen import CodeGen

__all__ = ["CodeWriter", "dtype_abbrs", "inplace_methods", "magic_methods",
           "reflectable_magic_methods"]

reflectable_magic_methods = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}",
    "truediv": "{} / {}", "div": "{} / {}", "mod": "{} % {}", "pow": "{} ** {}",
    "lshift": "{} << {}", "rshift": "{} >> {}", "and_": "{} & {}", "or_": "{} | {}",
    "xor": "{} ^ {}", "getitem": "{}[{}]", "matmul": "{} @ {}",
}
magic_methods = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}",
    "ge": "{} >= {}", "pos": "+{}", "neg": "-{}", "invert": "~{}", **reflectable_magic_methods,
}
inplace_methods = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}",
    "imod": "{} %= {}", "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}",
    "ipow": "{} **= {}", "irshift": "{} >>= {}", "isub": "{} -= {}", "itruediv": "{} /= {}",
    "ixor": "{} ^= {}", "setitem": "{}[{}] = {}",
}
dtype_abbrs = {
    getattr(dtypes, name): short for name, short in (
        pair.split(":") for pair in """
        bfloat16:bf16 float64:f64 float32:f32 float16:f16 float8_e4m3fn:f8e4m3fn
        float8_e5m2:f8e5m2 float8_e4m3fnuz:f8e4m3fnuz float8_e5m2fnuz:f8e5m2fnuz
        complex32:c32 complex64:c64 complex128:c128 int8:i8 int16:i16 int32:i32 int64:i64 bool_:b8
        uint8:u8 uint16:u16 uint32:u32 uint64:u64""".split()
    ) if hasattr(dtypes, name)
}
_SYMBOLIC = (SymInt, SymFloat, SymBool)
_COLORS = {"red": "\033[31m", "blue": "\033[34m", "dim": "\033[2m", "dim_blue": "\033[2m\033[34m",
           "dim_green": "\033[2m\033[32m"}
_COUNTER = re.compile(r"# COUNTER: (\d+)")
# Generic types of `typing` whose origin is a builtin.
_ORIGINS = {list: typing.List, dict: typing.Dict, set: typing.Set,  # noqa: UP006
            frozenset: typing.FrozenSet, tuple: typing.Tuple}  # noqa: UP006


@compatibility(is_backward_compatible=True)
@dataclass
class PythonCode:
    """A function's source, the globals it needs, and which node each line comes from."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None
    _prologue_start: int = 0


def format_target(base: str, target: str) -> str:
    """Return `base.a.b`, using getattr for parts that are not identifiers."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


def _write_brackets(values: Iterable[Any]) -> str:
    return f"[{', '.join(map(str, values))}]"


class CodeWriter:
    """Writes the code of one graph."""

    def __init__(
        self, codegen: CodeGen, nodes: Any, root_module: str, namespace: Namespace, *,
        verbose: bool = False, include_stride: bool = False, include_device: bool = False,
        include_meta: bool = False, colored: bool = False, expanded_def: bool = False,
        record_func: bool = False, additional_meta: list[str] | None = None,
    ) -> None:
        self.codegen, self.nodes, self.root, self.namespace = codegen, nodes, root_module, namespace
        self.verbose, self.expanded, self.meta_keys = verbose, expanded_def, additional_meta or ()
        self.with_stride, self.with_device, self.with_meta = (
            include_stride, include_device, include_meta
        )
        self.colored = colored
        self.free: list[str] = []
        self.body: list[str] = []
        self.globals: dict[str, Any] = {}
        self.wrapped: dict[str, None] = {}
        self.returned = ""
        self.summary: str | None = None
        self.last_uses = _find_last_uses(nodes)

    def write(self) -> PythonCode:
        """Return the source, its globals and the node of each line."""
        for name, builtin in custom_builtins().items():
            self.name_of_global(name, builtin.obj)
        for i, node in enumerate(self.nodes):
            if self.verbose:
                self.write_origin(node)
            self.body.append(f"# COUNTER: {i}\n")
            self.write_node(node)
            self.write_deletions(node)
        if not self.body:
            self.body.append("pass\n")
        wraps = ""
        if self.wrapped:
            wrap = self.name_of_global("wrap", torch_module().fx.wrap)
            wraps = "\n".join(f'{wrap}("{name}")' for name in self.wrapped)
        transform = self.codegen._body_transformer
        body = transform(self.body) if transform else self.body
        for name, value in self.codegen.additional_globals():
            self.name_of_global(name, value)
        head = self.call(self.codegen.gen_fn_def, self.free, self.returned,
                         expanded_def=self.expanded)
        lines: list[str] = []
        nodes_of_lines: dict[int, int | None] = {}
        current = None
        for line in "".join(body).split("\n"):
            counter = _COUNTER.search(line)
            if counter is not None:
                current = int(counter[1])
                continue
            nodes_of_lines[len(lines) + head.count("\n") + 1] = current
            lines.append(line)
        indented = "\n".join("    " + line for line in "\n".join(lines).lstrip("\n").split("\n"))
        source = f"\n{wraps}\n\n{head}\n{indented}"
        return PythonCode(source, self.globals, nodes_of_lines, wraps.count("\n") + 4)

    @staticmethod
    def call(method: Callable[..., str], *args: Any, **kwargs: Any) -> str:
        """Call a hook of the CodeGen with only the options that it accepts."""
        known = inspect.signature(method).parameters
        return method(*args, **{k: v for k, v in kwargs.items() if k in known})

    def paint(self, color: str, text: str) -> str:
        """Return the text in a color, if colors are enabled."""
        return f"{_COLORS[color]}{text}\033[0m" if self.colored else text

    # ---------------------------------------------------------------- names

    def name_of_global(self, hint: str, obj: Any) -> str:
        """Return the code's name for an object from outside the graph; may add a global."""
        if is_from_torch(obj) and obj is not device_type:
            return qualified_name(obj)
        name = self.namespace.create_name(hint.replace(".", "_"), obj)
        known = self.globals.setdefault(name, obj)
        if known is not obj and known != obj:
            raise AssertionError(f"global {name} is defined twice")
        return name

    def name_of_type(self, kind: Any) -> str:
        """Return the code of an annotation; the `()` in Tuple[()] is written as it stands."""
        if kind == ():
            return "()"
        text = type_repr(kind)
        if isinstance(kind, types.UnionType) and "|" in text:
            return "|".join(map(self.name_of_type, typing.get_args(kind)))
        origin = getattr(kind, "__origin__", None)
        if not origin:
            return self.name_of_global(text, kind)
        if isinstance(kind, typing._GenericAlias):  # type: ignore[attr-defined]
            origin = _ORIGINS.get(origin, origin)
        name = self.name_of_global(type_repr(origin), origin)
        parts = kind.dims if isinstance(kind, TensorType) else typing.get_args(kind)
        return f"{name}[{','.join(map(self.name_of_type, parts))}]" if parts else name

    def value(self, x: Any) -> str:
        """Return the code of an argument."""
        if isinstance(x, Node):
            return repr(x)
        if isinstance(x, tuple):
            if hasattr(x, "_fields"):
                return f"{self.name_of_global(qualified_name(type(x)), type(x))}{tuple(x)!r}"
            return f"({self.value(x[0])},)" if len(x) == 1 else f"({self.list_of(x)})"
        if isinstance(x, list):
            return f"[{self.list_of(x)}]"
        if isinstance(x, slice):
            return f"slice({self.list_of((x.start, x.stop, x.step))})"
        if isinstance(x, aten.Overload):
            return self.name_of_global(qualified_name(x), x)
        if isinstance(x, enum.Enum):
            return f"{self.name_of_global(type(x).__name__, type(x))}.{x.name}"
        if isinstance(x, Tensor):
            dtype = str(x.dtype).split(".")[-1]
            return f"torch.Tensor(size={list(x.size())}, dtype={dtype})"
        return self.paint("blue", repr(x))

    def list_of(self, values: Iterable[Any]) -> str:
        """Return the code of several arguments, separated by commas."""
        return ", ".join(map(self.value, values))

    def arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        """Return the code of a call's arguments, positional and keyword."""
        words = (f"{k} = {self.value(v)}" for k, v in kwargs.items())
        return ", ".join([*map(self.value, args), *words])

    # ---------------------------------------------------------------- statements

    def write_node(self, node: Node) -> None:
        """Write the node's own statement."""
        kind = "" if node.type is None else f" : {self.name_of_type(node.type)}"
        if self.verbose:
            kind = self.describe_value(node) or kind
        if self.with_meta and node.meta:
            shown = (f"{k}: {pprint.pformat(str(v), width=80, compact=True)}\n"
                     for k, v in node.meta.items())
            self.body += ['"""\n', *shown, '"""\n']
        getattr(self, f"write_{node.op}")(node, f"{node!r}{kind} = ", kind)

    def write_placeholder(self, node: Node, left: str, kind: str) -> None:
        """Add a parameter, and an assignment if the node has another name."""
        default = f" = {self.value(node.args[0])}" if node.args else ""
        desc = node.meta.get("desc") if self.expanded else None
        comment = "" if desc is None else f"  # {desc}"
        self.free.append(f"{node.target}{kind}{default}{comment}")
        name = str(node.target).replace("*", "")
        if name != repr(node):
            self.body.append(f"{node!r} = {name}\n")

    def write_call_method(self, node: Node, left: str, kind: str) -> None:
        """Write a method call."""
        target = format_target(self.value(node.args[0]), str(node.target))
        self.body.append(f"{left}{target}({self.arguments(node.args[1:], node.kwargs)})")

    def write_call_module(self, node: Node, left: str, kind: str) -> None:
        """Write a submodule call."""
        target = format_target(self.root, str(node.target))
        self.body.append(f"{left}{target}({self.arguments(node.args, node.kwargs)})")

    def write_get_attr(self, node: Node, left: str, kind: str) -> None:
        """Write an attribute read."""
        self.body.append(left + format_target(self.root, str(node.target)))

    def write_output(self, node: Node, left: str, kind: str) -> None:
        """Write the return statement."""
        if node.type is not None:
            self.returned = f" -> {self.name_of_type(node.type)}"
        descs = node.meta.get("desc") if self.expanded else None
        self.body.append(self.call(self.codegen.generate_output, node.args[0], descs=descs,
                                   repr_fn=self.value))

    def write_call_function(self, node: Node, left: str, kind: str) -> None:
        """Write a function call; Python operators are written as operators."""
        target: Any = node.target
        name = target.__name__ if getattr(target, "__module__", "") == "_operator" else ""
        values = [self.value(x) for x in node.args]
        if name in magic_methods:
            self.body.append(left + magic_methods[name].format(*values))
            return
        if name in inplace_methods:
            statement = inplace_methods[name].format(*values)
            self.body.append(f"{statement};  {left}{values[0]}")
            return
        called = self.name_of_global(qualified_name(target), target)
        args = node.args
        if called == "getattr" and len(args) == 2 and isinstance(args[1], str) \
                and args[1].isidentifier():
            self.body.append(left + format_target(values[0], args[1]))
            return
        self.body.append(f"{left}{called}({self.arguments(args, node.kwargs)})")
        if node.meta.get("is_wrapped", False):
            self.wrapped.setdefault(called)

    def write_deletions(self, node: Node) -> None:
        """End the statement, setting values to None after their last use."""
        if node.op == "placeholder":
            return
        dead = [] if node.op == "output" else list(self.last_uses.get(node, ()))
        if node.op != "output" and not node.users:
            dead.append(node)
        text = " = ".join([*map(repr, dead), "None"])
        self.body.append(f";  {self.paint('dim', text)}\n" if dead else "\n")

    # ---------------------------------------------------------------- comments and shapes

    def write_origin(self, node: Node) -> None:
        """Write a comment with the node's source line, if it differs from the previous one."""
        if node.op in ("placeholder", "output"):
            return
        shown = [f"{key}: {node.meta[key]}" for key in self.meta_keys if key in node.meta]
        keys = f"# {', '.join(shown)} " if shown else ""
        custom = {k: v if len(str(v)) <= 40 else str(v)[:40] + "..."
                  for k, v in node.meta.get("custom", {}).items()}
        notes = f" Annotation: {custom}" if custom else ""
        if node.meta.get("recompute") is not None:
            notes += f" recompute: {node.meta['recompute'].name}"
        trace = parse_stack_trace(node.stack_trace) if node.stack_trace else None
        origin = trace.get_summary_str() if trace else "No stacktrace found for following nodes"
        summary = "\n" + self.paint("dim", f"{keys}#{notes} {origin}") + "\n"
        if summary != self.summary:
            self.summary = summary
            self.body.append(summary)

    def describe_value(self, node: Node) -> str:
        """Return dtype and shape of the value recorded in the node's meta, or ''."""
        meta = node.meta
        value: Any = meta.get("val", meta.get("tensor_meta", meta.get("example_value")))
        if isinstance(value, Tensor):
            stride = _write_brackets(value.stride()) if self.with_stride else ""
            place = str(value.device) if self.with_device else ""
            core = (
                self.paint("red", dtype_abbrs[value.dtype])
                + self.paint("blue", _write_brackets(value.shape))
                + self.paint("dim_blue", stride) + self.paint("dim_green", place)
            )
            plain = type(value) is Tensor or type(value).__name__ in ("FakeTensor", "SizedExample")
            return f': "{core}"' if plain else f': "{type(value).__name__}({core})"'
        if isinstance(value, _SYMBOLIC):
            return f': "Sym({self.codegen._sym_repr(value)})"'
        if type(value).__name__ == "TensorMetadata":
            return f': "{dtype_abbrs[value.dtype]}{_write_brackets(value.shape)}"'
        return ""


def _find_last_uses(nodes: Any) -> dict[Node, list[Node]]:
    """Return, for each node, the inputs that no later node uses."""
    seen: set[Node] = set()
    last: dict[Node, list[Node]] = {}
    for user in reversed(nodes):
        for node in user._input_nodes:
            if node not in seen:
                seen.add(node)
                last.setdefault(user, []).append(node)
    return last
