"""TorchScript modules: nn.Modules whose methods are scripted, traced or loaded code."""

from __future__ import annotations

import copy
import io
from functools import partial
from importlib import import_module
from typing import Any

from ...nn.module import Module

__all__ = ["LoadedModule", "RecursiveScriptModule", "ScriptModule"]


class ScriptModule(Module):
    """Base class of scripted, traced and loaded modules."""

    _flambeau_is_script = True

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError("Pickling of ScriptModules is not supported: use torch.jit.save")

    @property
    def graph(self) -> Any:
        """`forward` as a graph of TorchScript's nodes, to look at."""
        writing = import_module(f"{__package__}.writing.scripted_module")
        return writing.Script(self).build_graph()

    def graph_for(self, *args: Any, **kwargs: Any) -> Any:
        """Return the graph, which no executor optimizes for the arguments."""
        return getattr(self, "inlined_graph", self.graph)

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write an archive generated from the module's source. PyTorch can load it too."""
        writing = import_module(f"{__package__}.writing.scripted_module")
        writing.Script(self).save(f, _extra_files)

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        """Return the archive as bytes."""
        file = io.BytesIO()
        self.save(file, _extra_files)
        return file.getvalue()


class _ScriptObject:
    """Stands for PyTorch's C++ object of a module: answers which methods it has."""

    def __init__(self, module: RecursiveScriptModule) -> None:
        self._module = module

    @property
    def qualified_name(self) -> str:
        """The class's name in archives."""
        return f"__torch__.{self._module.original_name}"

    def _method_names(self) -> list[str]:
        return self._module._flambeau_method_names()

    def _has_method(self, name: str) -> bool:
        return name in self._method_names()

    def getattr(self, name: str) -> Any:
        """Return an attribute of the module."""
        return getattr(self._module, name)


class RecursiveScriptModule(ScriptModule):
    """A module with TorchScript code."""

    original_name: str

    @property
    def _c(self) -> _ScriptObject:
        return _ScriptObject(self)

    def _flambeau_method_names(self) -> list[str]:
        return ["forward"]

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        result = type(self).__new__(type(self))
        memo[id(self)] = result
        result.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items()})
        return result

    def __copy__(self) -> Any:
        result = type(self).__new__(type(self))
        result.__dict__.update(self.__dict__)
        return result

    def _get_name(self) -> str:
        return "RecursiveScriptModule"

    def extra_repr(self) -> str:
        """Return the name of the scripted or traced class for the repr."""
        return f"original_name={self.original_name}"

    @property
    def graph(self) -> Any:
        """Raise NotImplementedError: loaded and frozen modules have no graph; `code` shows the
        program."""
        error = NotImplementedError("torch.jit.ScriptModule.graph of a loaded or frozen module")
        error.add_note("print(module.code) shows the program; torch.fx.symbolic_trace and "
                       "torch.export.export give graphs")
        raise error

    inlined_graph = graph

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write an archive that PyTorch can read too. Subclasses implement it."""
        raise NotImplementedError

    def get_debug_state(self, *args: Any, **kwargs: Any) -> Any:
        """Raise NotImplementedError: there is no executor."""
        raise NotImplementedError("torch.jit.ScriptModule.get_debug_state")


def _refuse_call(name: str) -> Any:
    """Return the method of scripted modules for one of nn.Module that they do not have."""
    def fail(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{name} is not supported on ScriptModules")

    return fail


for _name in ("bfloat16", "compile", "get_buffer", "get_parameter", "get_submodule", "ipu", "mtia",
              "register_backward_hook", "register_forward_hook", "register_forward_pre_hook",
              "register_full_backward_hook", "register_full_backward_pre_hook",
              "register_load_state_dict_post_hook", "register_load_state_dict_pre_hook",
              "register_state_dict_post_hook", "register_state_dict_pre_hook", "requires_grad_",
              "set_submodule", "to_empty", "xpu"):
    setattr(RecursiveScriptModule, _name, _refuse_call(_name))


class LoadedModule(RecursiveScriptModule):
    """A module loaded from an archive; `code` shows its forward.

    Besides parameters, buffers and submodules, it has the attributes that its class declares.
    """

    def __init__(self, kind: Any) -> None:
        super().__init__()
        attributes = self.__dict__
        attributes["_flambeau_type"], attributes["_flambeau_attributes"] = kind, {}
        attributes["original_name"] = kind.name
        for table, names in (("_forward_pre_hooks", kind.pre_hooks),
                             ("_forward_hooks", kind.hooks)):
            if names:
                setattr(self, table, dict(enumerate(kind.methods[name] for name in names)))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the archive's `forward`."""
        method = self._flambeau_method("forward")
        method.check((self, *args), kwargs)
        return method(self, *args, **kwargs)

    def _flambeau_method(self, name: str) -> Any:
        try:
            return self._flambeau_type.methods[name]
        except KeyError:
            raise AttributeError(
                f"'{type(self).__name__}' object has no attribute '{name}'") from None

    def _flambeau_method_names(self) -> list[str]:
        return list(self._flambeau_type.methods)

    def _flambeau_get(self, name: str) -> Any:
        """Return a declared attribute. Raise AttributeError for other names."""
        attributes = self.__dict__
        for table in ("_parameters", "_buffers", "_modules", "_flambeau_attributes"):
            if name in attributes[table]:
                return attributes[table][name]
        if name == "training":
            return attributes["training"]
        if name in self._flambeau_type.constants:
            return self._flambeau_type.constants[name]
        raise AttributeError(f"{self._flambeau_type.name} has no attribute {name!r}")

    def _flambeau_set(self, name: str, value: Any) -> None:
        """Set a declared attribute: a parameter, buffer, submodule or plain value."""
        kind, attributes = self._flambeau_type, self.__dict__
        if name == "training":
            attributes["training"] = bool(value)
        elif name in kind.parameters:  # plain tensors, as in PyTorch: a list may hold them too
            attributes["_parameters"][name] = value
        elif name in kind.buffers:
            attributes["_buffers"][name] = value
        elif isinstance(value, Module):
            attributes["_modules"][name] = value
        elif name in kind.attributes:
            attributes["_flambeau_attributes"][name] = value
        else:
            raise AttributeError(f"{kind.name} declares no attribute {name!r}")

    def __getattr__(self, name: str) -> Any:
        attributes = self.__dict__
        if name in attributes.get("_flambeau_attributes", ()):
            return attributes["_flambeau_attributes"][name]
        kind = attributes.get("_flambeau_type")
        if kind is not None:
            if name in kind.methods:
                return partial(kind.methods[name], self)
            if name in kind.constants:
                return kind.constants[name]
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("_flambeau_attributes", ()):
            self.__dict__["_flambeau_attributes"][name] = value
        else:
            super().__setattr__(name, value)

    @property
    def code(self) -> str:
        """The code of `forward`."""
        text: str = self._flambeau_method("forward").code
        return text

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write an archive that PyTorch can read too."""
        self._flambeau_save_as(f, _extra_files, is_frozen=False)

    def _flambeau_save_as(
        self, f: Any, extra_files: dict[str, Any] | None, is_frozen: bool
    ) -> None:
        import_module(f"{__package__}.writing.loaded_module").save(
            self, f, extra_files, is_frozen)
