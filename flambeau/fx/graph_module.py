"""GraphModule: a module whose forward is generated from a graph."""

from __future__ import annotations

import contextlib
import copy
import linecache
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from ..native.foundation.public_names import class_of
from ..nn.module import Module, _addindent
from ._compatibility import compatibility
from .codegen import PythonCode, _BoxedCodeGen, _PyTreeCodeGen
from .generated_source import exec_with_source, forward_of, import_block
from .graph import Graph
from .module_folder import write_folder
from .module_paths import (
    assign_attribute, attribute_at, copy_attribute, delete_attribute, has_attribute,
)

__all__ = ["GraphModule", "make_graph_module", "reduce_graph_module"]

_HOOKS = ("_replace_hooks", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks")
_COPIED_HOOKS = ("_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
                 *_HOOKS)
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"

# Aliases that libraries import.
_copy_attr, _assign_attr, _get_attr = copy_attribute, assign_attribute, attribute_at
_del_attr, _has_attr = delete_attribute, has_attribute
_forward_from_src, _exec_with_source = forward_of, exec_with_source


class _CodeOnlyModule(Module):
    """Holds a pickled GraphModule's attributes; its forward is traced to rebuild the graph."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


@compatibility(is_backward_compatible=True)
def reduce_graph_module(body: dict[str, Any], import_block: str) -> Module:
    """Rebuild a pickled GraphModule, by tracing its code to recover the graph.

    Unpickling executes code: only load pickles that you trust.
    """
    source = body.get("_code") or body["code"]
    return _rebuild(forward_of(import_block + source, {}), body)


def _rebuild(forward: Callable[..., Any], body: dict[str, Any]) -> Module:
    from ._symbolic_trace import Tracer

    kind: Any = body.get("_tracer_cls") or Tracer

    class KeepModules(kind):  # type: ignore[misc]
        def is_leaf_module(self, m: Module, qualified_name: str) -> bool:
            return True

    root: Any = type("_CodeOnlyModule", (_CodeOnlyModule,), {"forward": forward})(body)
    graph = KeepModules().trace(root, **body.get("_tracer_extras", {}))
    traces = body.pop("_graphmodule_graph_node_meta_stack_trace", None) or {}
    for node in graph.nodes:
        if traces.get(node.name) is not None:
            node.meta["stack_trace"] = traces[node.name]
    graph._tracer_cls = kind
    module = make_graph_module(root, graph, body.get("_graphmodule_cls_name", "GraphModule"))
    for name, value in body.items():
        if not hasattr(module, name):
            setattr(module, name, value)
    return module


def make_graph_module(
    root: Any, graph: Graph, class_name: str = "GraphModule",
    graph_module_cls: type[GraphModule] | None = None,
) -> GraphModule:
    """Return a GraphModule with this class name; `_use_lazy_graph_module` chooses its class."""
    return (graph_module_cls or default_class)(root, graph, class_name)


class _WrappedCall:
    """Runs forward and, if it fails, prints the generated line that raised the error."""

    def __init__(self, cls: type, cls_call: Callable[..., Any] | None) -> None:
        self.cls: Any = cls
        self.cls_call = cls_call

    @staticmethod
    def _generate_error_message(frame_summary: traceback.FrameSummary) -> str:
        number, line = frame_summary.lineno or 0, frame_summary.line or ""
        lines = linecache.getlines(frame_summary.filename)
        return "\n".join([
            traceback.format_exc(),
            f"Call using an FX-traced Module, line {number} of the traced Module's generated "
            "forward function:",
            "".join(lines[number - 2 : number]),
            "~" * len(line) + "~~~ <--- HERE",
            "\n".join(lines[number : number + 2]),
        ])

    def __call__(self, obj: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            if self.cls_call is not None:
                return self.cls_call(obj, *args, **kwargs)
            above: Any = super(self.cls, obj)
            return above.__call__(*args, **kwargs)
        except Exception as error:
            summary = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__))
            if summary and "eval_with_key" in summary[-1].filename:
                print(self._generate_error_message(summary[-1]), file=sys.stderr)
                raise error.with_traceback(None) from None
            raise


@compatibility(is_backward_compatible=True)
class GraphModule(Module):
    """A module made from a graph: `graph` is the graph, `code` the source of `forward`.

    `root`: the module, or a dict by path, that provides the graph's submodules and attributes. Call
    `recompile` after changing the graph.

    >>> gm = torch.fx.symbolic_trace(lambda x: x * 2)
    >>> node = next(n for n in gm.graph.nodes if n.op == "call_function")
    >>> node.args = (node.args[0], 3)
    >>> _ = gm.recompile()
    >>> gm(torch.ones(2))
    tensor([3., 3.])
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Create the instance in a fresh subclass, so that forward can be set per instance."""
        base = next(t for t in cls.__mro__ if t.__qualname__.split(".")[-1] != "GraphModuleImpl")

        class GraphModuleImpl(base):  # type: ignore[misc, valid-type]
            pass

        return super().__new__(GraphModuleImpl)

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        self.__class__.__name__ = class_name
        targets = [str(n.target) for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            self.training = getattr(root, "training", True)
            if isinstance(root, _CodeOnlyModule):
                members = (root.named_children(), root.named_buffers(), root.named_parameters())
                targets = [name for part in members for name, _ in part] + targets
            for target in targets:
                copy_attribute(root, self, target)
        elif isinstance(root, dict):
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module") and node.target not in root:
                    raise RuntimeError(f"Node {node} referenced target {node.target} but that "
                                       "target was not provided in ``root``!")
            for target in sorted(targets, key=lambda t: t.count(".")):  # outer modules first
                assign_attribute(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        tracer = graph._tracer_cls
        self._tracer_cls = tracer if tracer and "<locals>" not in tracer.__qualname__ else None
        self._tracer_extras = graph._tracer_extras or {}
        self.meta: dict[str, Any] = {}
        for name in _HOOKS:
            self.__dict__[name] = []
        self.shape_env: Any = None

    @property
    def _boxed_call(self) -> bool:
        return isinstance(self._graph._codegen, _BoxedCodeGen)

    @property
    def graph(self) -> Graph:
        """The graph; assigning one recompiles the module."""
        return self.__dict__["_graph"]

    @graph.setter
    def graph(self, g: Graph) -> None:
        """Set the graph and recompile."""
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {class_of(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The source of `forward`."""
        if not hasattr(self, "_code"):
            raise RuntimeError("Code has not been generated! Please report a bug to PyTorch")
        return self._code

    def recompile(self) -> PythonCode:
        """Regenerate `forward` after the graph changed. Also recompiles child GraphModules."""
        if isinstance(self._graph._codegen, _PyTreeCodeGen):
            info = self._graph._codegen.pytree_info
            self._in_spec, self._out_spec = info.in_spec, info.out_spec
        python_code = self._graph.python_code(root_module="self")
        self._code = python_code.src
        self._lineno_map = python_code._lineno_map
        self._prologue_start = python_code._prologue_start
        cls: Any = type(self)
        cls.forward = forward_of(self._code, python_code.globals, self._graph._co_fields)
        own_call = cls.__call__ if "__call__" in vars(cls) else None
        if "_wrapped_call" not in vars(cls):
            cls._wrapped_call = _WrappedCall(cls, own_call)
        for child in self.children():
            if isinstance(child, GraphModule):
                child.recompile()

        def call_wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
            return self._wrapped_call(self, *args, **kwargs)

        cls.__call__ = call_wrapped
        return python_code

    def _generate(self) -> PythonCode:
        return self.recompile()

    def real_recompile(self) -> None:
        """Generate the code of a lazy module now; this one's is there."""

    # ---------------------------------------------------------------- submodules

    def add_submodule(self, target: str, m: Module) -> bool:
        """Add a submodule at a path, creating empty ones above it; return whether it succeeded."""
        *above, name = target.split(".")
        module: Any = self
        for part in above:
            child = getattr(module, part, None)
            if child is None:
                child = Module()
                setattr(module, part, child)
            if not isinstance(child, Module):
                return False
            module = child
        module.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Delete the submodule at a path; return whether it existed."""
        *above, name = target.split(".")
        module: Any = self
        for part in above:
            module = getattr(module, part, None)
            if not isinstance(module, Module):
                return False
        if not isinstance(getattr(module, name, None), Module):
            return False
        delattr(module, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Delete the submodules that no node calls or reads from."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            parts = str(node.target).split(".")
            used.update(".".join(parts[: i + 1]) for i in range(len(parts)))
            if node.op == "call_module":
                try:
                    called = self.get_submodule(str(node.target))
                except AttributeError:
                    continue
                used.update(f"{node.target}.{path}" for path, _ in called.named_modules() if path)
        for path in [path for path, _ in self.named_modules() if path and path not in used]:
            self.delete_submodule(path)

    # ---------------------------------------------------------------- copies and files

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as source code: the format of graphs may change, Python's does not."""
        globals_ = self._generate().globals  # writes `_code`, which a lazy module may lack
        body = self.__dict__.copy()
        del body["_graph"]
        body.pop("_flambeau_is_hooked", None)
        return reduce_graph_module, (body, import_block(globals_))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def _deepcopy_init(self) -> Callable[..., None]:
        return GraphModule.__init__

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        members = _CodeOnlyModule(copy.deepcopy(self.__dict__, memo))
        self._deepcopy_init()(copied, members, members.__dict__["_graph"])
        for name in _COPIED_HOOKS:
            if name in self.__dict__:
                setattr(copied, name, copy.deepcopy(self.__dict__[name], memo))
        copied.meta = copy.deepcopy(getattr(self, "meta", {}), memo)
        for name, value in copied.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(copied, name, value)
        for hook in self.__dict__.get("_deepcopy_hooks", ()):
            hook(copied)
        return copied

    def __copy__(self) -> GraphModule:
        copied = make_graph_module(self, self.graph)
        copied.meta = getattr(self, "meta", {})
        return copied

    def _replicate_for_data_parallel(self) -> GraphModule:
        replica = self.__copy__()
        object.__setattr__(replica, "_is_replica", True)
        return replica

    def to_folder(self, folder: Any, module_name: str = "FxModule") -> None:
        """Write the module as a package: its code, with its parameters beside it."""
        write_folder(self, Path(folder), module_name)

    # ---------------------------------------------------------------- printing

    def print_readable(
        self, print_output: bool = True, include_stride: bool = False,
        include_device: bool = False, colored: bool = False, *, fast_sympy_print: bool = False,
        expanded_def: bool = False, additional_meta: list[str] | None = None,
    ) -> str:
        """Return (and print) the code as a class, including child GraphModules."""
        text = _readable(
            self, self._get_name(), include_stride=include_stride, include_device=include_device,
            colored=colored, expanded_def=expanded_def, additional_meta=additional_meta,
        )
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, hint])

    # ---------------------------------------------------------------- hooks

    @contextlib.contextmanager
    def _set_replace_hook(self, f: Callable[..., Any]) -> Iterator[None]:
        """Context in which `f(old, new, user)` is called whenever an input is replaced."""
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)


default_class: type[GraphModule] = GraphModule  # what traces return


def _hook_methods(name: str, event: str) -> None:
    def register(self: Any, f: Callable[..., Any]) -> None:
        if not callable(f):
            raise AssertionError(f"{event} hook must be a callable.")
        getattr(self, name).append(f)

    def unregister(self: Any, f: Callable[..., Any]) -> None:
        if not callable(f):
            raise AssertionError(f"{event} hook must be a callable.")
        getattr(self, name).remove(f)

    kind = name.removeprefix("_").removesuffix("_hooks")
    kind = "replace_node" if kind == "replace" else kind
    setattr(GraphModule, f"_register_{kind}_hook", register)
    setattr(GraphModule, f"_unregister_{kind}_hook", unregister)


for _name, _event in zip(_HOOKS, ("create_node", "create_node", "erase_node", "deepcopy"),
                         strict=True):
    _hook_methods(_name, _event)


def _readable(module: GraphModule, name: str, **options: Any) -> str:
    code = module.graph.python_code(root_module="self", verbose=True, **options)
    text = _addindent(f"class {name}(torch.nn.Module):\n" + code.src.lstrip("\n"), 4)
    children = [_readable(child, child_name, **options)
                for child_name, child in module.named_children()
                if isinstance(child, GraphModule)]
    return text + _addindent("\n".join(["", *children]), 4)
