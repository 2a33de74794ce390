"""TorchScript modules: nn.Modules whose methods are scripted, traced or loaded code."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from ...nn.module import Module
from ...tensor.tensor import Tensor

__all__ = [
    "LoadedModule", "RecursiveScriptModule", "ScriptMethod", "ScriptModule", "ScriptObject",
    "forward_method",
]


class ScriptModule(Module):
    """Base class of scripted, traced and loaded modules."""

    _flambeau_is_script = True

    @property
    def _c(self) -> Any:
        return self.__dict__.get("_flambeau_replaced") or ScriptObject(self)

    @_c.setter
    def _c(self, value: Any) -> None:
        self.__dict__["_flambeau_replaced"] = value

    def _flambeau_method_names(self) -> list[str]:
        return ["forward"]

    def _flambeau_bind(self, name: str) -> Any:
        """Return a method that knows its graph."""
        return getattr(self, name)

    def _flambeau_list_attributes(self) -> list[str]:
        state = self.__dict__
        return [*state["_parameters"], *state["_buffers"], *state["_modules"], *(
            name for name in state if not name.startswith("_"))]

    def _flambeau_has_attribute(self, name: str) -> bool:
        return name in self._flambeau_list_attributes()

    def _flambeau_compile(self, preserved: tuple[str, ...] = ()) -> LoadedModule:
        """Return the module as a program that has graphs. It shares the tensors."""
        writing = import_module(f"{__package__}.writing.scripted_module")
        result: LoadedModule = writing.Script(self, preserved=preserved).instantiate()
        return result

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


class ScriptMethod:
    """A method of a scripted or loaded module: a call, with the graph and code of what it runs."""

    __slots__ = ("__wrapped__", "_describe", "_function", "_owner", "name")

    def __init__(self, function: Callable[..., Any], owner: Any, name: str,
                 describe: Callable[[str], Any]) -> None:
        self._function, self._owner, self.name, self._describe = function, owner, name, describe
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(self._owner, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in ("graph", "inlined_graph", "code"):
            return self._describe(name)
        return getattr(self._function, name)

    @property
    def __self__(self) -> Any:
        return self._owner

    @property
    def __func__(self) -> Callable[..., Any]:
        return self._function

    @property
    def owner(self) -> Any:
        """The module's object."""
        return self._owner._c

    def graph_for(self, *args: Any, **kwargs: Any) -> Any:
        """Return the graph, which no executor optimizes for the arguments."""
        return self.inlined_graph


class forward_method:
    """`forward` of a module whose programs `_flambeau_bind` knows: an instance's has a graph."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        if owner is None:
            return self._function
        return ScriptMethod(self._function, owner, "forward",
                            partial(owner._flambeau_describe, "forward"))


class ScriptObject:
    """Stands for PyTorch's C++ object of a module: its attributes and methods, and no more."""

    def __init__(self, module: Any) -> None:
        self.__dict__["_module"] = module

    @property
    def qualified_name(self) -> str:
        """The class's name in archives."""
        module = self._module
        return f"__torch__.{getattr(module, 'original_name', type(module).__name__)}"

    def _method_names(self) -> list[str]:
        names: list[str] = self._module._flambeau_method_names()
        return names

    def _has_method(self, name: str) -> bool:
        return name in self._method_names()

    def _get_method(self, name: str) -> Any:
        if not self._has_method(name):
            raise AttributeError(f"Method '{name}' is not defined.")
        return self._module._flambeau_bind(name)

    def _get_methods(self) -> list[Any]:
        return [self._module._flambeau_bind(name) for name in self._method_names()]

    def getattr(self, name: str) -> Any:
        """Return an attribute of the module."""
        return getattr(self._module, name)

    def setattr(self, name: str, value: Any) -> None:
        """Set an attribute of the module."""
        setattr(self._module, name, value)

    def hasattr(self, name: str) -> bool:
        """Return whether the module has an attribute; methods are none."""
        return bool(self._module._flambeau_has_attribute(name))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._has_method(name):
            return self._module._flambeau_bind(name)
        if self.hasattr(name):
            value = getattr(self._module, name)
            return value._c if isinstance(value, ScriptModule) else value
        raise AttributeError(
            f"'{self.qualified_name} (of Python compilation unit at: 0)' object does not have a "
            f"field with name '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._module, name, value)

    def dump_to_str(self, code: bool, attrs: bool, params: bool) -> str:
        """Return the code and the attributes as text."""
        lines = [f"module {self.qualified_name} {{"]
        if code:
            lines += [f"  {line}" for name in self._method_names()
                      for line in str(self._module._flambeau_bind(name).code).splitlines()]
        for name in self._module._flambeau_list_attributes() if attrs else ():
            value = getattr(self._module, name)
            if not isinstance(value, Module):
                shown = value if params or not isinstance(value, Tensor) else "..."
                lines.append(f"  {name} = {shown}")
        return "\n".join([*lines, "}"]) + "\n"


class RecursiveScriptModule(ScriptModule):
    """A module with TorchScript code."""

    original_name: str

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        result = type(self).__new__(type(self))
        memo[id(self)] = result
        result.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items()
                                if k not in ("_flambeau_graphs", "_flambeau_replaced")})
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
        """Raise NotImplementedError: the program has no graph; `code` shows it."""
        error = NotImplementedError("torch.jit.ScriptModule.graph of a module without a graph")
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

    @forward_method
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

    def _flambeau_bind(self, name: str) -> ScriptMethod:
        return ScriptMethod(self._flambeau_method(name), self, name,
                            partial(self._flambeau_describe, name))

    def _flambeau_describe(self, method: str, what: str) -> Any:
        """Return the graph, inlined graph or code of a method."""
        return getattr(self._flambeau_method(method), what)

    def _flambeau_list_attributes(self) -> list[str]:
        kind = self._flambeau_type
        return [name for name in kind.attributes if name not in kind.constants]

    def _flambeau_compile(self, preserved: tuple[str, ...] = ()) -> LoadedModule:
        return self

    @property
    def graph(self) -> Any:
        """`forward` as a graph of TorchScript's nodes; passes change what it does."""
        return self._flambeau_method("forward").graph

    @property
    def inlined_graph(self) -> Any:
        """The same with the nodes of called functions in the place of calls."""
        return self._flambeau_method("forward").inlined_graph

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
                return self._flambeau_bind(name)
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
