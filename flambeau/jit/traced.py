"""Traced modules: graphs of aten operators. Reading their archives runs no code."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from .._higher_order_ops.active_export import jit_tracing
from ..export import ExportedProgram, archive, export
from ..export.errors import ArchiveError
from ..nn.module import Module
from ..nn.parameter import Parameter
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from . import trace_checking
from .dynamic_trace import export_for_most_sizes
from .graph_function import GraphFunction
from .scripted import ScriptFunction, save_module, script
from .torchscript import archive as torchscript_archive
from .torchscript.instantiation import instantiate
from .torchscript.script_module import (
    LoadedModule, RecursiveScriptModule, ScriptMethod, ScriptModule, ScriptObject,
    forward_method,
)
from .torchscript.writing.graph_code import save_graphs, write_graphs
from .torchscript.writing.scripted_module import is_quantized
from .traced_graph import build_trace_graph
from .traced_values import check_input

__all__ = ["TracedModule", "load", "save", "trace", "trace_module"]


class _Function(Module):
    """A function wrapped as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = function


class _Method(Module):
    """A method of a module, wrapped as a module with the same state."""

    def __init__(self, owner: Module, name: str) -> None:
        super().__init__()
        state = owner.__dict__
        self.__dict__.update({key: state[key] for key in _STATE})
        self.forward = getattr(owner, name)


class TracedModule(RecursiveScriptModule):
    """A module that runs recorded graphs: `graph` shows that of forward, `save` writes all."""

    def __init__(self, programs: dict[str, ExportedProgram], name: str) -> None:
        super().__init__()
        inner = {method: program.module(check_guards=False) for method, program in programs.items()}
        first = next(iter(inner.values()))
        self.__dict__.update({k: first.__dict__[k] for k in _STATE})
        for module in inner.values():
            _share_state(first, module)
        self.__dict__["_flambeau_programs"], self.__dict__["_flambeau_methods"] = programs, inner
        if "forward" in inner:
            self.__dict__["_flambeau_program"] = programs["forward"]
            self.__dict__["_flambeau_own"] = inner["forward"]
        self.original_name = name

    @forward_method
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph of `forward`."""
        return self._flambeau_run("forward", *args, **kwargs)

    def _flambeau_run(self, method: str, *args: Any, **kwargs: Any) -> Any:
        inner = self.__dict__["_flambeau_methods"].get(method)
        if inner is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{method}'")
        try:
            return inner.forward(*args, **kwargs)
        except KeyError:  # a dict without the example's keys
            raise RuntimeError("Argument passed to at() was not in the map.") from None

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__.get("_flambeau_methods", ()):
            return partial(self._flambeau_run, name)
        return super().__getattr__(name)

    def _flambeau_method_names(self) -> list[str]:
        return list(self.__dict__["_flambeau_methods"])

    def _flambeau_compile(self, preserved: tuple[str, ...] = ()) -> LoadedModule:
        return instantiate(*write_graphs(self, self.__dict__["_flambeau_programs"],
                                         self.original_name))

    def _get_name(self) -> str:
        return str(self.original_name)

    @property
    def graph(self) -> Any:
        """The nodes of forward's graph under TorchScript's names, which passes may change."""
        return self._flambeau_describe("forward")

    inlined_graph = graph

    def _flambeau_describe(self, method: str, what: str = "graph") -> Any:
        """Return the graph or code of a method."""
        if what == "code":
            return str(self.__dict__["_flambeau_methods"][method].code)
        known = self.__dict__.setdefault("_flambeau_graphs", {})
        if method not in known:
            known[method] = build_trace_graph(self, method)
        return known[method]

    def _flambeau_bind(self, name: str) -> Any:
        return ScriptMethod(_run_method(name), self, name,
                            partial(self._flambeau_describe, name))

    @property
    def code(self) -> str:
        """The graph of forward as code."""
        return str(self._flambeau_own.code)

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write a TorchScript archive, which PyTorch can read too.

        For a graph that TorchScript cannot express, write a torch.export archive instead.
        """
        self._flambeau_save_as(f, _extra_files, is_frozen=False)

    def _flambeau_save_as(
        self, f: Any, extra_files: dict[str, Any] | None, is_frozen: bool
    ) -> None:
        programs = self.__dict__["_flambeau_programs"]
        try:
            save_graphs(self, programs, self.original_name, f, extra_files, is_frozen)
        except NotImplementedError:
            if list(programs) != ["forward"]:
                raise
            archive.save(programs["forward"], f, extra_files=extra_files)


def _run_method(name: str) -> Callable[..., Any]:
    def run(module: TracedModule, *args: Any, **kwargs: Any) -> Any:
        return module._flambeau_run(name, *args, **kwargs)

    return run


_STATE = ("_parameters", "_buffers", "_modules", "training", "_non_persistent_buffers_set")


def _share_state(first: Module, other: Module) -> None:
    """Let the graph of another method read the same tables of parameters and buffers.

    Its own constants become attributes, which come before the tables.
    """
    for table in ("_parameters", "_buffers"):
        shared, separate = first.__dict__[table], other.__dict__[table]
        other.__dict__.update({k: v for k, v in separate.items() if shared.get(k) is not v})
        other.__dict__[table] = shared
    for key, child in first._modules.items():
        twin = other._modules.get(key)
        if child is not None and twin is not None:
            _share_state(child, twin)


def trace(func: Any, example_inputs: Any = None, *args: Any, check_trace: bool = True,
          check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True,
          example_kwarg_inputs: Any = None, **options: Any) -> Any:
    """Record a TracedModule from one run of a module or function on example inputs.

    The trace supports other input sizes unless the program branches on them. A module with
    quantized parts is scripted instead. PyTorch's other options are ignored.

    Values that the program reads from tensors (`if x.sum() > 0`) become constants, with a
    TracerWarning. With `check_trace`, the results are compared with those of another run of the
    program, and differences are warned of, on the example inputs or on each of `check_inputs`;
    TracingCheckError if the graphs differ. `strict` forbids dicts as outputs.

    >>> traced = torch.jit.trace(nn.Linear(3, 2), torch.ones(1, 3))
    >>> traced(torch.ones(5, 3)).shape
    torch.Size([5, 2])
    """
    if isinstance(func, TracedModule):
        return func
    owner = getattr(func, "__self__", None)
    if isinstance(owner, Module) and func.__name__ == "forward":
        func = owner
    elif isinstance(owner, Module):
        raise AttributeError("trace doesn't support compiling individual module's functions.\n"
                             "Please use trace_module")
    if example_inputs is None:
        example_inputs = ()
    if isinstance(func, Module) and is_quantized(func):  # graphs cannot hold packed weights
        return script(func)
    module = func if isinstance(func, Module) else _Function(func)
    name = type(func).__name__ if isinstance(func, Module) else func.__name__
    traced = _trace_methods(module, {"forward": module}, {"forward": example_inputs}, name, strict,
                            example_kwarg_inputs or {})
    traced.__dict__["_flambeau_is_function"] = not isinstance(func, Module)
    if check_trace:
        for other in [example_inputs] if check_inputs is None else check_inputs:
            _check(traced, "forward", module, example_inputs, other, example_kwarg_inputs or {},
                   check_tolerance)
    return traced


def trace_module(mod: Any, inputs: Any, *args: Any, check_trace: bool = True,
                 check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True,
                 **options: Any) -> Any:
    """Record several methods of a module as graphs that share its parameters and buffers.

    `inputs`: the example inputs of each method by its name. `check_inputs`: a list of such dicts.

    >>> class Scaled(nn.Linear):
    ...     def scale(self, factor):
    ...         return factor * self.weight
    >>> x, factor = torch.ones(1, 3), torch.ones(2, 1)
    >>> traced = torch.jit.trace_module(Scaled(3, 2), {"forward": x, "scale": factor})
    >>> traced(x).shape, traced.scale(factor).shape
    (torch.Size([1, 2]), torch.Size([2, 3]))
    """
    if not isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    methods = {name: mod if name == "forward" else _Method(mod, name) for name in inputs}
    traced = _trace_methods(mod, methods, inputs, type(mod).__name__, strict, {})
    if check_trace:
        for others in [inputs] if check_inputs is None else check_inputs:
            for name, other in others.items():
                _check(traced, name, methods[name], inputs[name], other, {}, check_tolerance)
    return traced


def _trace_methods(owner: Module, methods: dict[str, Module], examples: dict[str, Any], name: str,
                   strict: bool, kwargs: dict[str, Any]) -> TracedModule:
    """Record the methods. `examples`: the inputs of each."""
    if owner._backward_hooks or owner._backward_pre_hooks:
        raise ValueError(f"Modules that have backward hooks assigned can't be compiled: {owner}")
    programs = {}
    for method, module in methods.items():
        inputs = _wrap_inputs(examples[method])
        check_input(inputs)
        inputs, words = pytree.tree_map(_create_alias, (inputs, kwargs))
        with jit_tracing(trace_checking.note_read), trace_checking.merge_warnings():
            programs[method] = export_for_most_sizes(module, inputs, words)
        trace_checking.check_output(programs[method], strict)
    traced = TracedModule(programs, name)
    traced.training = owner.training
    return traced


def _wrap_inputs(example: Any) -> tuple:
    """Return example inputs as a tuple."""
    return tuple(example) if isinstance(example, (tuple, list)) else (example,)


def _check(traced: TracedModule, method: str, module: Module, example: Any, other: Any,
           kwargs: dict[str, Any], tolerance: float) -> None:
    """Compare the graph of a method with the program on other inputs."""
    pairs = pytree.tree_map(_create_alias, (_wrap_inputs(example), _wrap_inputs(other)))
    kwargs = pytree.tree_map(_create_alias, kwargs)
    with jit_tracing(lambda name: None):
        retraces = [partial(export, module, inputs, kwargs) for inputs in pairs]
        trace_checking.check_trace(
            partial(traced._flambeau_run, method), traced.__dict__["_flambeau_programs"][method],
            module, pairs[1], kwargs, tolerance, retraces)


def _create_alias(leaf: Any) -> Any:
    """Return a tensor that shares memory: a trace tells its inputs apart by identity."""
    if type(leaf) not in (Tensor, Parameter):
        return leaf
    return leaf.detach().requires_grad_(leaf.requires_grad)


def save(m: Any, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
    """Write a scripted, traced or loaded module. Raise NotImplementedError for others.

    >>> import io
    >>> file = io.BytesIO()
    >>> torch.jit.save(torch.jit.trace(nn.Linear(3, 2), torch.ones(1, 3)), file)
    >>> _ = file.seek(0)
    >>> torch.jit.load(file)(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """
    m = m._module if isinstance(m, ScriptObject) else m
    if isinstance(m, (RecursiveScriptModule, ScriptFunction, GraphFunction)):
        m.save(f, _extra_files)
    elif isinstance(m, ScriptModule):
        save_module(m, f, _extra_files)
    else:
        error = NotImplementedError("torch.jit.save: only a scripted, traced or loaded module has "
                                    "code that can be saved")
        error.add_note("torch.jit.save(torch.jit.script(module), file)")
        raise error


def load(f: Any, map_location: Any = None, _extra_files: dict[str, Any] | None = None,
         _restore_shapes: bool = False) -> Any:
    """Read a TorchScript archive or one from `save` without running Python from the file.

    Raises RuntimeError for a damaged file, ValueError for a path that is not a file.
    """
    if isinstance(f, (str, os.PathLike)):
        if not os.path.exists(f):
            raise ValueError(f"The provided filename {f} does not exist")
        if os.path.isdir(f):
            raise ValueError(f"The provided filename {f} is a directory")
    if torchscript_archive.is_torchscript(f):
        return torchscript_archive.load(f, map_location, _extra_files)
    start = f.tell() if hasattr(f, "tell") else 0
    try:
        program = archive.load(f, extra_files=_extra_files)
    except ArchiveError:
        if hasattr(f, "seek"):
            f.seek(start)
        torchscript_archive.refuse_foreign_file(f)
        raise
    return TracedModule({"forward": program}, "RecursiveScriptModule")
