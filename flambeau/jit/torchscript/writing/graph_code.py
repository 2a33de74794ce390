"""Write the graph of a traced module as straight-line TorchScript code, and as an archive."""

from __future__ import annotations

import ast
import operator
from typing import Any

from ....export.aten_functions import number_of_dtype
from ....export.exported_program import ExportedProgram
from ....export.graph_signature import InputKind
from ....fx.node import Node
from ....fx.qualified_names import qualified_name
from ....nn.module import Module
from ....ops.core import aten
from ....tensor.devices import device
from ....tensor.dtypes import dtype
from ....tensor.layout import layout, memory_format
from ....utils import _pytree as pytree
from .archive import Instance, drop_state, write
from .classes import ClassWriter, write_attribute_read, write_literal
from .functional_library import list_signatures, write_definitions

__all__ = ["GraphCode", "save_graphs", "write_graphs"]

_PYTHON = {operator.add: "add", operator.sub: "sub", operator.mul: "mul",
           operator.floordiv: "floordiv", operator.mod: "remainder", operator.neg: "neg",
           operator.eq: "eq", operator.ne: "ne", operator.lt: "lt", operator.le: "le",
           operator.gt: "gt", operator.ge: "ge", operator.truediv: "div", operator.pow: "pow"}
# Conversion methods and the c10::ScalarType of their dtype.
_CONVERSIONS = {"float": 6, "double": 7, "half": 5, "bfloat16": 15, "long": 4, "int": 3,
                "short": 2, "char": 1, "byte": 0, "bool": 11}
# Operators whose size Python may pass as separate ints.
_SIZED = frozenset(("zeros", "ones", "empty", "rand", "randn", "view", "reshape", "expand",
                    "repeat", "permute", "tile"))
# Variadic functions, and the position of their first tensor.
_VARYING = {"einsum": 1, "meshgrid": 0, "broadcast_tensors": 0, "block_diag": 0,
            "cartesian_prod": 0}
_RENAMED = {"sym_size": "size", "concat": "cat", "concatenate": "cat", "swapaxes": "transpose",
            "logsigmoid": "log_sigmoid", "detach_": "detach"}
_MEMORY = ("torch.contiguous_format", "torch.preserve_format", "torch.channels_last",
           "torch.channels_last_3d")


class GraphCode:
    """The text of a method, the constants it reads, and the functions it calls.

    `constants`: those of other methods, to which this one's are added.
    """

    def __init__(self, program: ExportedProgram, class_name: str, method: str = "forward",
                 constants: list[Any] | None = None) -> None:
        self.program, self.constants = program, [] if constants is None else constants
        self.functions: set[str] = set()
        self._names: dict[Node, str] = {}
        body = self._write_body()
        arguments = "".join(f",\n    {name}: {kind}" for name, kind in self._inputs.items())
        self.text = (f"  def {method}(self: {class_name}{arguments}) -> {self._returns}:\n"
                        + "".join(f"    {line}\n" for line in body))

    def write_functions(self) -> str:
        """Return the definitions of the nn.functional functions that the graph calls."""
        return write_definitions(self.functions)

    def _write_body(self) -> list[str]:
        specs = iter(self.program.graph_signature.input_specs)
        self._name_inputs()
        lines = []
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                self._name_tensor(node, next(specs))
            elif node.op == "call_function":
                name = self._names[node] = f"v_{node.name}"
                lines.append(f"{name} = {self._write_call(node)}")
            elif node.op == "output":
                lines.append(f"return {self._write_output(node)}")
        return lines

    def _name_inputs(self) -> None:
        """Name the parameters and record their types, and how to read each tensor in them."""
        placeholders = [node for node in self.program.graph.nodes if node.op == "placeholder"]
        users = [node for node, spec in zip(
            placeholders, self.program.graph_signature.input_specs, strict=True)
            if spec.kind is InputKind.USER_INPUT]
        args, kwargs = pytree.tree_unflatten(users, self.program._in_spec)
        self._inputs: dict[str, str] = {}
        for position, value in enumerate([*args, *kwargs.values()]):
            name = f"v_{value.name}" if isinstance(value, Node) else f"v_input{position}"
            self._inputs[name] = self._name_nested(name, value)

    def _name_nested(self, text: str, value: Any) -> str:
        """Name the tensors of a nested input, which `text` reads; return its type."""
        if isinstance(value, Node):
            self._names[value] = text
            return "Tensor"
        if isinstance(value, (tuple, list)):
            kinds = [self._name_nested(f"({text})[{i}]", part) for i, part in enumerate(value)]
            if isinstance(value, tuple):
                return f"Tuple[{', '.join(kinds)}]" if kinds else "Tuple[()]"
        elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
            kinds = [self._name_nested(f"({text})[{write_literal(key)}]", part)
                     for key, part in value.items()]
        else:
            raise NotImplementedError(f"an input of type {type(value).__name__}")
        if len(set(kinds)) != 1:
            raise NotImplementedError(f"an input of type {type(value).__name__} of mixed types")
        return f"List[{kinds[0]}]" if isinstance(value, list) else f"Dict[str, {kinds[0]}]"

    def _name_tensor(self, node: Node, spec: Any) -> None:
        if spec.kind is InputKind.USER_INPUT:
            return
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            self._names[node] = write_attribute_read("self", str(spec.target))
        else:
            self._names[node] = f"CONSTANTS.c{len(self.constants)}"
            self.constants.append(self.program.constants[str(spec.target)])

    def _write_output(self, node: Node) -> str:
        """Write the outputs in the module's output structure and record their type."""
        results: Any = node.args[0]
        values = [self._write_value(v) for v in results]
        if any(not isinstance(v, Node) for v in results):
            raise NotImplementedError("an output that is no tensor")
        tree = pytree.tree_unflatten(values, self.program._out_spec)
        text, self._returns = _write_structure(tree)
        return text

    def _write_call(self, node: Node) -> str:
        target, args, kwargs = node.target, list(node.args), dict(node.kwargs)
        if target is operator.getitem:
            return f"({self._write_value(args[0])})[{self._write_value(args[1])}]"
        if target in _PYTHON:
            return f"torch.{_PYTHON[target]}({', '.join(map(self._write_value, args))})"
        if isinstance(target, aten.Overload):
            name = target.overloadpacket.__name__
        else:
            path = qualified_name(target)
            name = path.rpartition(".")[2]
            if path.startswith("torch.nn.functional.") and name in list_signatures():
                return self._write_functional(name, args, kwargs)
            if not path.startswith("torch.") or path.startswith("torch.nn.functional."):
                raise NotImplementedError(f"a call of {path}")
        return self._write_operator(name, args, kwargs)

    def _write_functional(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> str:
        kinds = {a.arg: ast.unparse(a.annotation) for a in list_signatures()[name].args
                 if a.annotation is not None}
        bound = {**dict(zip(kinds, args, strict=False)), **kwargs}
        for key in ("size_average", "reduce", "max_norm"):
            if bound.get(key) is not None:
                raise NotImplementedError(f"{key} of {name}")
        if bound.get("return_indices"):
            name = f"{name}_with_indices"
        self.functions.add(name)
        for key, value in bound.items():
            if key not in kinds:
                raise NotImplementedError(f"the argument {key} of {name}")
            if kinds[key] == "float" and type(value) is int:
                bound[key] = float(value)
            if "List" in kinds[key] and value is not None and not isinstance(value, (list, tuple)):
                number = float(value) if "float" in kinds[key] else value
                bound[key] = [number] * self._count_axes(name, bound["input"])
        args, kwargs = [], bound
        return f"__torch__.torch.nn.functional.{name}({self._write_arguments(args, kwargs)})"

    @staticmethod
    def _count_axes(name: str, input: Any) -> int:
        """Return the number of spatial axes, to expand a scalar argument to."""
        name = name.removesuffix("_with_indices")
        if name[-2:] in ("1d", "2d", "3d"):
            return int(name[-2])
        if not name.startswith(("interpolate", "upsample")):
            return 2
        return int(input.meta["val"].dim()) - 2

    def _write_operator(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> str:
        if name in _CONVERSIONS and len(args) == 1:
            return f"torch.to({self._write_value(args[0])}, {_CONVERSIONS[name]})"
        name = _RENAMED.get(name, name)
        if name in _SIZED:
            start = 0 if name in ("zeros", "ones", "empty", "rand", "randn") else 1
            sizes = args[start:]
            if sizes and not isinstance(sizes[0], (list, tuple)):
                args = [*args[:start], sizes]
        if name == "index":
            indices = ", ".join(map(self._write_value, args[1]))
            return (f"torch.index({self._write_value(args[0])}, "
                    f"annotate(List[Optional[Tensor]], [{indices}]))")
        if name in _VARYING and not isinstance(args[_VARYING[name]], (list, tuple)):
            args = [*args[: _VARYING[name]], args[_VARYING[name] :]]
        kwargs.pop("pin_memory", None)
        return f"torch.{name}({self._write_arguments(args, kwargs)})"

    def _write_arguments(self, args: list[Any], kwargs: dict[str, Any]) -> str:
        return ", ".join([*map(self._write_value, args),
                          *(f"{k}={self._write_value(v)}" for k, v in kwargs.items())])

    def _write_value(self, value: Any) -> str:
        if isinstance(value, Node):
            return self._names[value]
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(map(self._write_value, value)) + "]" if value \
                else "annotate(List[int], [])"
        if isinstance(value, dtype):
            return str(number_of_dtype(value))
        if isinstance(value, device):
            return f'torch.device("{value}")'
        if isinstance(value, layout):
            return "0"
        if isinstance(value, memory_format):
            return str(_MEMORY.index(str(value)))
        return write_literal(value)


def _write_structure(tree: Any) -> tuple[str, str]:
    """Return the text and type of an output: tensors in tuples, lists and dicts."""
    if isinstance(tree, str):
        return tree, "Tensor"
    if type(tree) is tuple:
        parts = [_write_structure(t) for t in tree]
        comma = "," if len(parts) == 1 else ""
        return (f"({', '.join(p for p, _ in parts)}{comma})",
                f"Tuple[{', '.join(t for _, t in parts)}]")
    if type(tree) is list and tree:
        parts = [_write_structure(t) for t in tree]
        return f"[{', '.join(p for p, _ in parts)}]", f"List[{parts[0][1]}]"
    if type(tree) is dict and tree and all(isinstance(k, str) for k in tree):
        fields = {write_literal(k): _write_structure(v) for k, v in tree.items()}
        kinds = {kind for _, kind in fields.values()}
        if len(kinds) == 1:
            return ("{" + ", ".join(f"{k}: {v}" for k, (v, _) in fields.items()) + "}",
                    f"Dict[str, {kinds.pop()}]")
    raise NotImplementedError(f"an output of type {type(tree).__name__}")


def write_graphs(module: Module, programs: dict[str, ExportedProgram], name: str
                 ) -> tuple[Instance, dict[str, str], list[Any]]:
    """Return the object, the texts and the constants of an archive of a module's methods.

    Raises NotImplementedError for a graph that TorchScript lacks.
    """
    classes, constants = ClassWriter(), list[Any]()
    qualified = classes.name(name)
    codes = [GraphCode(program, qualified, method, constants)
             for method, program in programs.items()]
    omitted = frozenset(path for program in programs.values() for path in program.constants)
    root = classes.tree(module, qualified, "".join(code.text for code in codes), omitted)
    functions = write_definitions(set[str]().union(*(code.functions for code in codes)))
    if functions:
        classes.add("__torch__.torch.nn.functional", functions)
    return root, classes.code, constants


def save_graphs(
    module: Module, programs: dict[str, ExportedProgram], name: str, file: Any,
    extra_files: dict[str, Any] | None = None, is_frozen: bool = False,
) -> None:
    """Write the archive of a module's methods; if `is_frozen`, without parameters and buffers.

    Raises NotImplementedError, before writing anything, for a graph that TorchScript lacks.
    """
    root, code, constants = write_graphs(module, programs, name)
    write(file, root, drop_state(code) if is_frozen else code, constants, extra_files)
