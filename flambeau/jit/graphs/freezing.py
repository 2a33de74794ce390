"""Freezing: attributes that no method changes become constants of its graphs.

What stays are the attributes that a method assigns or writes to, those that share memory with
such, objects that are used as a whole, and what the caller preserves.
"""

from __future__ import annotations

import ast
import re
from typing import Any, NamedTuple

from ...tensor.devices import device
from ...tensor.tensor import Tensor
from .aliases import Memory, list_parts
from .nodes import Graph, Node
from .passes.constants import propagate_constants
from .passes.dead_code import eliminate_dead_code
from .passes.peephole import lower_simple_tuples, simplify_peepholes
from .passes.subexpressions import eliminate_common_subexpressions
from .statements import build_graph
from .types import split_type

__all__ = ["Frozen", "Method", "freeze_methods"]

Place = tuple[int, str]  # an object's id, and the name of an attribute


class Method(NamedTuple):
    """A method of one of the program's modules."""

    owner: Any
    name: str


class Frozen(NamedTuple):
    """The graphs of methods, and the attributes that they need by id of their owner."""

    graphs: dict[Method, Graph]
    attributes: dict[int, set[str]]
    whole: set[int]  # ids of modules that stay as they are
    alive: list[Any]


def freeze_methods(module: Any, preserved: list[str], preserve_parameters: bool = False) -> Frozen:
    """Return the frozen graphs of a loaded module's `forward` and of what is preserved.

    `preserved`: paths of methods, attributes and submodules. Raises NotImplementedError for code
    that has no graph, and RuntimeError for what PyTorch cannot freeze.
    """
    return _Freezer(module, preserved, preserve_parameters).freeze()


class _Freezer:
    def __init__(self, module: Any, preserved: list[str], preserve_parameters: bool) -> None:
        self.module, self._preserves_parameters = module, preserve_parameters
        self._program = module._flambeau_type.program
        self._texts = self._program.texts()
        self._graphs: dict[Method, Graph] = {}
        self._preserved: set[Place] = set()
        self._whole: dict[int, Any] = {}
        self._alive: list[Any] = []  # so that ids stay those of one object
        kinds = module._flambeau_type
        if kinds.pre_hooks or kinds.hooks:
            raise NotImplementedError("freezing a module with hooks")
        for path in dict.fromkeys(["forward", *preserved]):
            self._preserve(path)

    def _preserve(self, path: str) -> None:
        *parents, name = path.split(".")
        owner = self.module
        for parent in parents:
            self._keep(owner, parent)
            owner = owner._flambeau_get(parent)
        if name in owner._flambeau_type.methods:
            self._graphs[Method(owner, name)] = self._build(owner, name)
            return
        try:
            value = owner._flambeau_get(name)
        except AttributeError:
            if path == "forward":
                return
            raise RuntimeError(f"Unknown name: {path}") from None
        self._keep(owner, name)
        if hasattr(value, "_flambeau_type"):
            self._keep_whole(value)

    def _build(self, owner: Any, name: str) -> Graph:
        kind = owner._flambeau_type
        return build_graph(ast.unparse(kind.methods[name].definition), self._texts,
                           kind.qualified_name, inlines=True, constants=self._program.constants,
                           instance=owner)

    def _keep(self, owner: Any, name: str) -> None:
        self._alive.append(owner)
        self._preserved.add((id(owner), name))

    def _keep_whole(self, value: Any) -> None:
        """Keep all attributes of an object, and those of the objects that it holds."""
        if id(value) in self._whole:
            return
        self._whole[id(value)] = value
        for name in value._flambeau_type.attributes:
            self._keep(value, name)
            for inner in _list_objects(value._flambeau_get(name)):
                self._keep_whole(inner)

    # ---------------------------------------------------------------- what changes

    def freeze(self) -> Frozen:
        """Return the frozen graphs."""
        for method, graph in self._graphs.items():
            propagate_constants(graph)  # branches that are never taken need no attributes
            if any(value.instance is method.owner and method.owner is self.module
                   for value in graph.results):
                raise RuntimeError("attempted to freeze a module that return itself")
        memories = [Memory(graph) for graph in self._graphs.values()]
        for graph, memory in zip(self._graphs.values(), memories, strict=True):
            self._record_changes(graph, memory)
        self._record_sharing()
        for graph in self._graphs.values():
            self._fold(graph)
            _simplify(graph)
        return Frozen(self._graphs, self._list_needed(), set(self._whole), self._alive)

    def _record_changes(self, graph: Graph, memory: Memory) -> None:
        for node in graph.list_nodes():
            if node.kind() in ("prim::GetAttr", "prim::SetAttr"):
                owner, name = node.arguments[0].instance, node.s("name")
                if owner is None:
                    continue
                key = (id(owner), name)
                if node.kind() == "prim::SetAttr" or memory.writes_itself(node.results[0]):
                    self._keep(owner, name)
                self._alive.append(owner)
                self._used.setdefault(key, owner)
            for value in node.arguments:
                if value.instance is not None and not _is_access(node, value):
                    self._keep_whole(value.instance)
        for value in graph.results:
            if value.instance is not None:
                self._keep_whole(value.instance)
        for instance in memory.escaped:
            self._keep_whole(instance)

    @property
    def _used(self) -> dict[Place, Any]:
        return self.__dict__.setdefault("_used_attributes", {})

    def _record_sharing(self) -> None:
        """Keep attributes that share memory with kept ones; refuse values that overlap."""
        changed = True
        while changed:
            changed = False
            written: set[Any] = set()
            for key, owner in self._used.items():
                if key in self._preserved:
                    written |= list_parts(_read(owner, key[1]))
            for key, owner in self._used.items():
                if key not in self._preserved and not written.isdisjoint(
                        list_parts(_read(owner, key[1]))):
                    self._preserved.add(key)
                    changed = True
        seen: list[Any] = []
        for key, owner in self._used.items():
            value = _read(owner, key[1])
            if key in self._preserved or hasattr(value, "_flambeau_type"):
                continue
            parts = list_parts(value)
            for other in seen:
                if other is not value and not (isinstance(other, Tensor) and isinstance(
                        value, Tensor)) and not parts.isdisjoint(list_parts(other)):
                    raise RuntimeError(
                        f"module contains attributes values that overlaps {value}")
            seen.append(value)

    # ---------------------------------------------------------------- folding

    def _fold(self, graph: Graph) -> None:
        for node in graph.findAllNodes("prim::GetAttr"):
            owner, name = node.arguments[0].instance, node.s("name")
            if owner is None or (id(owner), name) in self._preserved \
                    or self._is_training_state(owner, name):
                continue
            value = _read(owner, name)
            kind = node.results[0].type()
            if isinstance(value, Tensor) and value.requires_grad:
                value = value.detach()
            if not _may_be_constant(value):
                value = self._find_member(value)
                if value is None:
                    continue
            constant = graph.create_constant(value, kind).insertBefore(node)
            if split_type(kind.annotation_str)[0] in ("Optional", "Union") and value is None:
                constant.results[0].setType(kind.derive("NoneType"))
            node.results[0].replaceAllUsesWith(constant.results[0])
            node.destroy()

    def _is_training_state(self, owner: Any, name: str) -> bool:
        """Return whether an attribute belongs to training, and the module trains."""
        kind = owner._flambeau_type
        if self._preserves_parameters and name in kind.parameters:
            return True
        return bool(getattr(self.module, "training", False)) and (
            name in kind.parameters or name in kind.buffers or name == "training")

    def _find_member(self, value: Any) -> str | None:
        """Return the path of an Enum's member, or None."""
        for kind in self._program.classes():
            if kind.kind == "enum" and isinstance(value, kind.python):
                return f"{kind.qualified_name}.{value.name}"
        return None

    def _list_needed(self) -> dict[int, set[str]]:
        """Return the attributes that the graphs still read or assign, and the preserved ones."""
        needed: dict[int, set[str]] = {}
        for owner, name in self._preserved:
            needed.setdefault(owner, set()).add(name)
        for graph in self._graphs.values():
            for node in graph.list_nodes():
                if node.kind() in ("prim::GetAttr", "prim::SetAttr"):
                    owner = node.arguments[0].instance
                    if owner is not None:
                        needed.setdefault(id(owner), set()).add(node.s("name"))
        for method in self._graphs:
            needed.setdefault(id(method.owner), set())
        self._share_classes(needed)
        return needed

    def _share_classes(self, needed: dict[int, set[str]]) -> None:
        """Give modules of one class the same attributes, as objects of a class have in PyTorch."""
        groups: dict[str, list[Any]] = {}
        for module in self.module.modules():
            if id(module) in needed and module is not self.module:
                groups.setdefault(_describe_class(module), []).append(module)
        for group in groups.values():
            names = set().union(*(needed[id(module)] for module in group))
            for module in group:
                needed[id(module)] = names


def _simplify(graph: Graph) -> None:
    changed = True
    while changed:
        lower_simple_tuples(graph)
        changed = propagate_constants(graph) | simplify_peepholes(graph)
        changed |= eliminate_common_subexpressions(graph)
        eliminate_dead_code(graph)


def _is_access(node: Node, value: Any) -> bool:
    """Return whether a node only reads or assigns an attribute of an object."""
    if node.kind() not in ("prim::GetAttr", "prim::SetAttr"):
        return False
    return node.arguments[0] is value and not any(x is value for x in node.arguments[1:])


def _describe_class(module: Any) -> str:
    """Return what modules of one Python class with the same attributes have in common."""
    kind = module._flambeau_type
    attributes = [f"{name}: {ast.unparse(part)}" for name, part in kind.attributes.items()]
    text = "\n".join([kind.name, *attributes])
    return re.sub(r"\.___torch_mangle_\w+", "", text)


def _read(owner: Any, name: str) -> Any:
    return owner._flambeau_get(name)


def _list_objects(value: Any) -> list[Any]:
    if hasattr(value, "_flambeau_type"):
        return [value]
    inner = value.values() if isinstance(value, dict) else value \
        if isinstance(value, (list, tuple)) else ()
    return [part for item in inner for part in _list_objects(item)]


def _may_be_constant(value: Any) -> bool:
    if isinstance(value, (list, dict)) or type(value) is tuple:
        inner = [*value, *value.values()] if isinstance(value, dict) else value
        return all(map(_may_be_constant, inner))
    return value is None or type(value) in (bool, int, float, complex, str) \
        or isinstance(value, (Tensor, device))
