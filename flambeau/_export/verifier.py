"""torch._export.verifier: checks that a graph keeps the rules of its dialect.

Dialects: TRAINING, which `export` records, may write in place; ATEN, after `run_decompositions`,
may not. A subclass of Verifier with a `dialect` of its own adds one.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, final

from ..amp import autocast_mode
from ..autograd.mode import set_grad_enabled
from ..export.graph_signature import (
    CustomObjArgument, InputKind, InputSpec, SymIntArgument, TensorArgument, TokenArgument,
)
from ..export.symbolic.sizes import SymbolicFloat, SymbolicSize
from ..fx.graph_module import GraphModule
from ..fx.module_paths import attribute_at, has_attribute
from ..fx.node import Node
from ..library import OpOverload
from ..nn.parameter import Parameter
from ..tensor.devices import device
from ..tensor.dtypes import dtype
from ..tensor.layout import layout, memory_format
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree

__all__ = ["SpecViolationError", "TrainingIRVerifier", "Verifier", "load_verifier"]

_BUILTINS = [getattr(operator, name) for name in (
    "getitem add mul sub truediv ge le gt lt eq ne floordiv mod and_ or_ not_ pow neg abs lshift "
    "rshift").split()] + [math.ceil, math.floor, math.trunc, builtins.round]
_MODES = [set_grad_enabled, autocast_mode.autocast]
_VALUES = (type(None), int, bool, str, float, memory_format, dtype, device, layout, Tensor,
           SymbolicSize, SymbolicFloat, CustomObjArgument)


class SpecViolationError(Exception):
    """A graph breaks a rule of its dialect."""


def is_functional(op: Any) -> bool:
    """Return whether an operator leaves its arguments unchanged."""
    return not op._schema.is_mutable


class Verifier:
    """Checks graphs of the dialect ATEN."""

    dialect = "ATEN"
    _registry: ClassVar[dict[str, type[Verifier]]] = {}

    def __init_subclass__(cls) -> None:
        if "check" in cls.__dict__ or "_check_graph_module" in cls.__dict__:
            raise SyntaxError("Overriding method check is not allowed.")
        if cls.__dict__.get("dialect", "ATEN") == "ATEN":
            raise AssertionError(
                f"subclass must define dialect != 'ATEN', got {cls.__dict__.get('dialect')}")
        Verifier._registry[cls.dialect] = cls

    def allowed_builtin_ops(self) -> list[Callable[..., Any]]:
        """Return the functions of Python that may be called."""
        return list(_BUILTINS)

    def allowed_op_types(self) -> tuple[type, ...]:
        """Return the types of the operators that may be called."""
        return (OpOverload,)

    def allowed_getattr_types(self) -> tuple[type, ...]:
        """Return the types of attributes that the outermost graph may read."""
        return (GraphModule, pytree.TreeSpec)

    def allowed_getattr_types_for_subgm(self) -> tuple[type, ...]:
        """Return the types of attributes that a graph within another may read."""
        return (GraphModule, Parameter, Tensor, pytree.TreeSpec)

    def check_valid_op(self, op: Any) -> None:
        """Check an operator; a hook for subclasses."""

    def check_additional(self, gm: GraphModule) -> None:
        """Check a whole module; a hook for subclasses."""

    @final
    def check(self, ep: Any) -> None:
        """Raise SpecViolationError if a program breaks a rule."""
        self._check_graph_module(ep.graph_module)
        _check_module_calls(ep)
        for spec, node in zip(ep.graph_signature.input_specs, _match_inputs(ep), strict=True):
            _check_input(ep, spec, node)
        _check_outputs(ep)

    @final
    def _check_graph_module(self, gm: GraphModule) -> None:
        for module in gm.modules():
            if not isinstance(module, GraphModule):
                continue
            module.graph.lint()
            for node in module.graph.nodes:
                self._check_node(module, node, module is gm)
        self.check_additional(gm)

    def _check_node(self, module: GraphModule, node: Node, is_outermost: bool) -> None:
        if node.op in ("call_module", "call_method"):
            raise SpecViolationError(f"call_module is not valid: got a class '{node.target}' ")
        if node.op in ("call_function", "placeholder"):
            _check_val(node)
        if node.op == "call_function":
            self._check_operator(node.target)
        elif node.op == "get_attr":
            if not has_attribute(module, str(node.target)):
                raise RuntimeError(f"Node referenced nonexistent target {node.target}")
            value = attribute_at(module, str(node.target))
            kinds = self.allowed_getattr_types() if is_outermost \
                else self.allowed_getattr_types_for_subgm()
            if not isinstance(value, kinds):
                raise SpecViolationError(
                    f"Invalid get_attr type {type(value)} on target {node.target}. \n"
                    f"Valid get_attr types: {kinds}")

    def _check_operator(self, op: Any) -> None:
        is_operator = isinstance(op, self.allowed_op_types())
        if not is_operator and not _is_higher_order(op) \
                and op not in self.allowed_builtin_ops() and op not in _MODES:
            raise SpecViolationError(
                f"Operator '{op}' is not an allowed operator type: {self.allowed_op_types()}\n"
                f"Valid builtin ops: {self.allowed_builtin_ops()}Valid torch functions: {_MODES}")
        if is_operator and self.dialect != "TRAINING" and not is_functional(op):
            raise SpecViolationError(f"operator '{op}' is not functional")
        self.check_valid_op(op)


class TrainingIRVerifier(Verifier):
    """Checks graphs as `torch.export.export` records them."""

    dialect = "TRAINING"


def load_verifier(dialect: str) -> type[Verifier]:
    """Return the verifier of a dialect. Raises KeyError for an unknown one."""
    return Verifier if dialect in ("ATEN", "") else Verifier._registry[dialect]


def _is_higher_order(op: Any) -> bool:
    return getattr(op, "__module__", None) == "torch.ops.higher_order"


def _check_val(node: Node) -> None:
    def is_valid(value: Any) -> bool:
        if isinstance(value, _VALUES):
            return True
        return isinstance(value, Iterable) and all(map(is_valid, value))

    if "val" not in node.meta:
        target: Any = node.target
        is_operator = isinstance(target, OpOverload)
        if is_operator and not target._schema.returns:
            return
        raise SpecViolationError(f"Node.meta {node.name} is missing val field.")
    if not is_valid(node.meta["val"]):
        raise SpecViolationError(
            f"Node.meta {node.name} has invalid val field {node.meta['val']}")


def _check_module_calls(program: Any) -> None:
    names = {node.name for node in program.graph.nodes}
    for entry in program.module_call_graph:
        signature = getattr(entry, "signature", None)
        for kind, values in (("Input", getattr(signature, "inputs", ())),
                             ("Output", getattr(signature, "outputs", ()))):
            for value in values:
                name = getattr(value, "name", "")
                if name and name not in names:
                    raise SpecViolationError(f"{kind} {name} does not exist in the graph.")


def _match_inputs(program: Any) -> list[str]:
    """Return the names of a graph's inputs, of which each has a spec."""
    names = [node.name for node in program.graph.nodes if node.op == "placeholder"]
    specs = program.graph_signature.input_specs
    if len(names) != len(specs):
        listed = {spec.arg.name for spec in specs}
        raise SpecViolationError(
            f"Number of graph inputs ({len(names)}) does not match number of inputs in the graph "
            f"signature ({len(specs)})\nPlaceholders missing input_specs: {set(names) - listed}\n"
            f"Input_specs missing placeholders: {listed - set(names)}")
    return names


_KINDS: dict[InputKind, tuple[str, type]] = {
    InputKind.PARAMETER: ("Parameter", TensorArgument),
    InputKind.BUFFER: ("Buffer", TensorArgument),
    InputKind.CONSTANT_TENSOR: ("Constant tensor", TensorArgument),
    InputKind.CUSTOM_OBJ: ("Custom object", CustomObjArgument),
    InputKind.TOKEN: ("Token", TokenArgument),
}


def _check_input(program: Any, spec: InputSpec, node: str) -> None:
    if isinstance(spec.arg, (TensorArgument, SymIntArgument)) and spec.arg.name != node:
        raise SpecViolationError(
            f"Input spec name {spec.arg.name} does not match node name {node}")
    if spec.kind is InputKind.USER_INPUT:
        return
    (word, argument), name = _KINDS[spec.kind], spec.arg.name
    if not isinstance(spec.arg, argument):
        article = "a tensor argument" if argument is TensorArgument else f"a {argument.__name__}"
        raise SpecViolationError(f"{word} {name} is not {article}. Found {spec.arg} instead.")
    if spec.kind is InputKind.TOKEN:
        return
    if spec.target is None:
        raise SpecViolationError(f"InputSpec for {name} has no target.")
    _check_value(program, spec, word)


def _check_value(program: Any, spec: InputSpec, word: str) -> None:
    """Check that the program has the parameter, buffer or constant of an input."""
    state, constants, path = program.state_dict, program.constants, spec.target
    if spec.kind is InputKind.PARAMETER:
        if path not in state:
            raise SpecViolationError(f"Parameter {path} is not in the state dict.")
        if not isinstance(state[path], Parameter):
            raise SpecViolationError(f"State dict entry for parameter {path} is not an instance of "
                                     "torch.nn.Parameter.")
    elif spec.kind is InputKind.BUFFER:
        if spec.persistent is None:
            raise SpecViolationError(f"Buffer {path} is missing a persistence flag")
        if spec.persistent and path not in state and path not in constants \
                and path not in program.graph_module.state_dict():
            raise SpecViolationError(f"Buffer {path} is not in the state dict.")
        if not spec.persistent and path in state:
            raise SpecViolationError(
                f"Non-persistent buffer {path} is in the state dict, it should not be.")
    elif path not in constants:
        raise SpecViolationError(f"{word} {path} is not in the constants dictionary.")


def _check_outputs(program: Any) -> None:
    signature = program.graph_signature
    results: Any = program.graph.output_node().args[0]
    names = [x.name if isinstance(x, Node) else x for x in results]
    if len(names) != len(signature.output_specs):
        listed = {getattr(spec.arg, "name", str(spec.arg)) for spec in signature.output_specs}
        raise SpecViolationError(
            f"Number of output nodes {len(names)} is different Than the number of outputs "
            f"specified by the graph signature: {len(signature.output_specs)}\n"
            f"Nodes missing output_specs: {set(names) - listed}\n"
            f"Output_specs missing nodes: {listed - set(names)}")
    first = len(names) - len(signature.user_outputs)
    for name, expected in zip(names[first:], signature.user_outputs, strict=True):
        if name != expected:
            raise SpecViolationError(
                f"User output {name} is not in the correct order or is not found in the exported "
                f"program's user_output list: {signature.user_outputs}. ")
