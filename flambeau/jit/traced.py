"""Traced modules: graphs of aten operators. Reading their archives runs no code."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from .._higher_order_ops.active_export import jit_tracing
from ..export import Dim, ExportedProgram, archive, export
from ..export.symbolic.sizes import SpecializationError
from ..nn.module import Module
from ..nn.parameter import Parameter
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from . import trace_checking
from .scripted import ScriptFunction, save_module, script
from .torchscript import archive as torchscript_archive
from .torchscript.script_module import RecursiveScriptModule, ScriptModule
from .torchscript.writing.graph_code import save_graph
from .torchscript.writing.scripted_module import is_quantized
from .trace_graph import convert_graph

__all__ = ["TracedModule", "load", "save", "trace"]


class _Function(Module):
    """A function wrapped as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = function


class TracedModule(RecursiveScriptModule):
    """A module that runs a recorded graph: `graph` shows it, `save` writes it."""

    def __init__(self, program: ExportedProgram, name: str) -> None:
        super().__init__()
        inner = program.module(check_guards=False)
        self.__dict__.update({k: v for k, v in inner.__dict__.items()
                              if k in ("_parameters", "_buffers", "_modules", "training",
                                       "_non_persistent_buffers_set")})
        self.__dict__["_flambeau_program"], self.__dict__["_flambeau_own"] = program, inner
        self.original_name = name

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph."""
        return self.__dict__["_flambeau_own"].forward(*args, **kwargs)

    def _get_name(self) -> str:
        return str(self.original_name)

    @property
    def graph(self) -> Any:
        """The graph's nodes under TorchScript's names."""
        return convert_graph(self.__dict__["_flambeau_program"].graph)

    inlined_graph = graph

    @property
    def code(self) -> str:
        """The graph as code."""
        return self.__dict__["_flambeau_own"].code

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write a TorchScript archive, which PyTorch can read too.

        For a graph that TorchScript cannot express, write a torch.export archive instead.
        """
        self._save_as(f, _extra_files, is_frozen=False)

    def _save_as(self, f: Any, extra_files: dict[str, Any] | None, is_frozen: bool) -> None:
        program = self.__dict__["_flambeau_program"]
        try:
            save_graph(self, program, self.original_name, f, extra_files, is_frozen)
        except NotImplementedError:
            archive.save(program, f, extra_files=extra_files)


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
    if example_inputs is None:
        example_inputs = ()
    if isinstance(example_inputs, list):
        example_inputs = tuple(example_inputs)
    inputs = example_inputs if isinstance(example_inputs, tuple) else (example_inputs,)
    if isinstance(func, Module) and is_quantized(func):  # graphs cannot hold packed weights
        return script(func)
    module = func if isinstance(func, Module) else _Function(func)
    name = type(func).__name__ if isinstance(func, Module) else func.__name__
    inputs, kwargs = pytree.tree_map(_create_alias, (inputs, example_kwarg_inputs or {}))
    if module._backward_hooks or module._backward_pre_hooks:
        raise ValueError(f"Modules that have backward hooks assigned can't be compiled: {module}")
    with jit_tracing(trace_checking.note_read), trace_checking.merge_warnings():
        program = _export_for_most_sizes(module, inputs, kwargs)
    trace_checking.check_output(program, strict)
    traced = TracedModule(program, name)
    traced.training = module.training
    traced.__dict__["_flambeau_is_function"] = not isinstance(func, Module)
    if check_trace:
        with jit_tracing(lambda name: None):
            for other in [inputs] if check_inputs is None else check_inputs:
                other = other if isinstance(other, tuple) else (other,)
                retraces = [partial(export, module, x, kwargs) for x in (inputs, other)]
                trace_checking.check_trace(traced, module, other, kwargs, check_tolerance, retraces)
    return traced


def _create_alias(leaf: Any) -> Any:
    """Return a tensor that shares memory: a trace tells its inputs apart by identity."""
    if type(leaf) not in (Tensor, Parameter):
        return leaf
    return leaf.detach().requires_grad_(leaf.requires_grad)


_REFUSALS = (SpecializationError, RuntimeError, IndexError, ValueError)


def _export_for_most_sizes(
    module: Module, inputs: tuple, kwargs: dict[str, Any]
) -> ExportedProgram:
    """Export with all sizes dynamic; failing that, axis 0 of each input; else axis by axis."""
    names = [n for n, _ in zip(inspect.signature(module.forward).parameters, inputs, strict=False)]
    if len(names) != len(inputs) or not all(isinstance(x, Tensor) for x in inputs):
        return export(module, inputs, kwargs)
    ranks = {name: x.ndim for name, x in zip(names, inputs, strict=True)}
    every = {name: dict.fromkeys(range(rank), Dim.DYNAMIC) for name, rank in ranks.items()}
    first = {name: {0: Dim.DYNAMIC} if rank else None for name, rank in ranks.items()}
    for shapes in (every, first):
        with suppress(*_REFUSALS):
            return export(module, inputs, kwargs, dynamic_shapes=shapes)
    program = export(module, inputs, kwargs)
    dynamic: dict[str, dict[int, Any]] = {name: {} for name in names}
    for name, rank in ranks.items():
        for dim in range(rank):
            tried = {**dynamic, name: {**dynamic[name], dim: Dim.DYNAMIC}}
            with suppress(*_REFUSALS):
                program = export(module, inputs, kwargs, dynamic_shapes=tried)
                dynamic = tried
    return program


def save(m: Any, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
    """Write a scripted, traced or loaded module. Raise NotImplementedError for others.

    >>> import io
    >>> file = io.BytesIO()
    >>> torch.jit.save(torch.jit.trace(nn.Linear(3, 2), torch.ones(1, 3)), file)
    >>> _ = file.seek(0)
    >>> torch.jit.load(file)(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """
    if isinstance(m, (RecursiveScriptModule, ScriptFunction)):
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
    return TracedModule(archive.load(f, extra_files=_extra_files), "RecursiveScriptModule")
