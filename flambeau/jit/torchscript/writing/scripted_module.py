"""Generate TorchScript from the source of a module or function, for `torch.jit.script`."""

from __future__ import annotations

import enum
import inspect
import re
import sys
import textwrap
import typing
from functools import partial
from typing import Any

from ....nn.module import Module
from ....tensor.tensor import Tensor
from ...checking.interfaces import explain_class_mismatch, list_methods
from ...checking.program import read_hints
from ..instantiation import instantiate
from . import script_classes
from .annotations import is_named_tuple, is_written_class, type_of_value, type_text
from .archive import Call, Instance, drop_state, write
from .classes import ClassWriter
from .embedded import Embedded, is_embedded
from .functional_library import write_definitions
from .hooks import HookMethods, has_hooks, write_hooks
from .module_library import write_forward
from .module_state import ModuleState
from .source_code import FunctionCode

__all__ = ["Script", "is_quantized"]


def _find_quantized_library() -> Any:
    """Return the writer of quantized modules, or None if no module can be quantized."""
    if "flambeau.ao.nn.quantized" not in sys.modules:
        return None
    from . import quantized_library as library

    return library


def is_quantized(module: Module) -> bool:
    """Return whether a module contains quantized modules."""
    library = _find_quantized_library()
    return library is not None and any(map(library.is_known, module.modules()))


# PyTorch's class, as it appears in archives.
_GRAD_MODE = """class {name}:
  prev : bool
  def __enter__(self: __torch__.torch.autograd.grad_mode.{name}) -> NoneType:
    self.prev = torch.is_grad_enabled()
    torch.set_grad_enabled({enabled})
    return None
  def __exit__(self: __torch__.torch.autograd.grad_mode.{name},
    exc_type: Any,
    exc_value: Any,
    traceback: Any) -> NoneType:
    torch.set_grad_enabled(self.prev)
    return None
  def __init__(self: __torch__.torch.autograd.grad_mode.{name}) -> NoneType:
    self.prev = False
    return None
"""
_FUNCTIONAL = re.compile(r"__torch__\.torch\.nn\.functional\.(\w+)\(")


class Script:
    """The code of a module and of everything it calls.

    Raises NotImplementedError, with the line and a fix, for unsupported code.
    """

    def __init__(self, module: Module, exported: tuple[str, ...] = (),
                 function: Any = None, preserved: tuple[str, ...] = ()) -> None:
        """`exported`: methods to write too. `preserved`: paths of methods, and of attributes that
        shall be read at run time."""
        self.module, self.state = module, ModuleState()
        self._preserved_methods = [place for path in preserved
                                   for place in preserve(module, path, self.state)]
        self._is_function = function is not None
        self._alive = list(module.modules())
        self._write_all(exported, function)
        while not self.state.settled():  # a function changes an attribute assumed constant
            self._write_all(exported, function)
        self._objects: dict[int, Instance] = {}
        self.root = self._instance(module, {})

    def _write_all(self, exported: tuple[str, ...], function: Any) -> None:
        """Write everything from scratch, given the run-time state known so far."""
        module, self.classes = self.module, ClassWriter()
        self.constants: list[Tensor] = []
        self._functions: dict[Any, str] = {}
        self._kinds: dict[type, str] = {}
        self.inherited_methods: dict[str, dict[str, str]] = {}  # of script classes
        self._names = {id(m): self.classes.name(type(m).__name__) for m in module.modules()}
        self._methods: dict[int, dict[str, str]] = {}
        self.embedded = Embedded(self)
        self._hooks: dict[int, HookMethods] = {}
        self._hooked_calls: dict[int, str] = {}
        if function is None:
            self.call_module(module)
        else:
            code = FunctionCode(function, None, self)
            self.write_functions = code.text(function.__name__, None)
            self._methods[id(module)] = {
                "forward": code.write_as_method(
                    self._names[id(module)], self.call_function(function))}
        for name in exported:
            self.call_method(module, name)
        for owner, name in self._preserved_methods:
            self.call_method(owner, name)
        _write_implementations(self)

    @property
    def code(self) -> str:
        """The code of `forward`."""
        lines = self._methods[id(self.module)]["forward"].splitlines(keepends=True)
        name = self._names[id(self.module)]
        return "".join(line.removeprefix("  ") for line in lines).replace(f"self: {name}", "self")

    def build_graph(self, inlines: bool = False, method: str = "forward") -> Any:
        """Return a method, or the function, as a graph of TorchScript's nodes."""
        from ...graphs.statements import build_graph

        owner = None if self._is_function else self._names[id(self.module)]
        text = self.write_functions if self._is_function else textwrap.dedent(
            self._methods[id(self.module)][method])
        graph = build_graph(text, self.classes.code, owner, inlines, self.constants)
        graph.build_inlined = lambda: build_graph(text, self.classes.code, owner, True,
                                                  self.constants)
        return graph

    def write_method(self, name: str) -> str:
        """Return the code of a method."""
        return textwrap.dedent(self._methods[id(self.module)][name])

    def instantiate(self) -> Any:
        """Return the module that the archive would hold, with the same tensors."""
        return instantiate(self.root, self._list_code(), self.constants)

    def save(self, file: Any, extra_files: dict[str, Any] | None = None,
             is_frozen: bool = False) -> None:
        """Write an archive that PyTorch can read too; if `is_frozen`, without module state."""
        code = self._list_code()
        write(file, self.root, drop_state(code) if is_frozen else code, self.constants,
              extra_files)

    def _list_code(self) -> dict[str, str]:
        """Return the code by namespace, with the functions of torch.nn that it calls."""
        names = {n for text in self.classes.code.values() for n in _FUNCTIONAL.findall(text)}
        code = dict(self.classes.code)
        if names:
            code["__torch__.torch.nn.functional"] = write_definitions(names)
        return code

    # ------------------------------------------------------------- callbacks of function writers

    def call_module(self, module: Module) -> None:
        """Write a module's forward and those of the modules that it calls."""
        if is_embedded(module):
            self.embedded.instance(module)
            return
        methods = self._methods.setdefault(id(module), {})
        if "forward" in methods:
            return
        if has_hooks(module):
            self._write_hooks(module)
        if self._write_quantized(module):
            return
        text = write_forward(module, self._names[id(module)])
        if text is None:
            if type(module).forward is not Module.forward:  # else it is only a container
                self.call_method(module, "forward")
            return
        methods["forward"] = text
        for child in module._modules.values():  # torch.nn's modules call their children
            for inner in [] if child is None else child.modules():
                if type(inner).forward is not Module.forward:
                    self.call_module(inner)

    def write_hooked_call(self, module: Module) -> str | None:
        """Return the function that runs a module's forward with its hooks, or None without."""
        return self._hooked_calls.get(id(module))

    def _write_hooks(self, module: Module) -> None:
        """Write a module's hooks as methods, and the function that runs them."""
        name = self._hooked_calls[id(module)] = self.classes.name("forward_with_hooks")
        written = self._hooks[id(module)] = write_hooks(module, self._names[id(module)], self)
        self._methods[id(module)] |= written.methods
        space, _, short = name.rpartition(".")
        self.classes.add(space, f"def {short}{written.function}")

    def _write_quantized(self, module: Module) -> bool:
        """Write all methods of a quantized module; return whether it is one."""
        library = _find_quantized_library()
        name = self._names[id(module)]
        methods = None if library is None else library.write_methods(module, name)
        if methods is not None:
            self._methods[id(module)] = methods
        return methods is not None

    def call_method(self, module: Module, name: str) -> None:
        """Write a method from its source."""
        methods = self._methods.setdefault(id(module), {})
        if name in methods or self._write_quantized(module) and name in self._methods[id(module)]:
            return
        methods[name] = ""  # a method may call itself
        code = FunctionCode(inspect.unwrap(getattr(type(module), name)), module, self)
        methods[name] = code.text(name, self._names[id(module)])

    def call_function(self, function: Any) -> str:
        """Write a function; return its qualified name."""
        known = self._functions.get(function)
        if known is None:
            known = self._functions[function] = self.classes.name(function.__name__)
            space, _, name = known.rpartition(".")
            self.classes.add(space, FunctionCode(function, None, self).text(name, None))
        return known

    def constant(self, value: Tensor) -> str:
        """Return the name of a tensor from outside the functions, storing it on first use."""
        for number, known in enumerate(self.constants):
            if known is value:
                return f"CONSTANTS.c{number}"
        self.constants.append(value)
        return f"CONSTANTS.c{len(self.constants) - 1}"

    def call_super(self, owner: Module | type, after: type, name: str) -> str:
        """Write a base class's method under a unique name and return the name."""
        kind = owner if isinstance(owner, type) else type(owner)
        order = kind.__mro__[kind.__mro__.index(after) + 1:]
        base = next(k for k in order if name in vars(k))
        written = f"_{base.__name__}_{name.strip('_')}"
        qualified = self._kinds[owner] if isinstance(owner, type) else self._names[id(owner)]
        methods = self.inherited_methods.setdefault(qualified, {}) if isinstance(owner, type) \
            else self._methods.setdefault(id(owner), {})
        if written not in methods:
            methods[written] = ""
            code = FunctionCode(vars(base)[name], None if isinstance(owner, type) else owner, self,
                                kind if isinstance(owner, type) else None)
            methods[written] = code.text(written, qualified)
            if name == "__init__":
                methods[written] += "    return None\n"
        return written

    def declare(self, kind: type) -> str:
        """Declare a named tuple, enum, interface or script class; return its name."""
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds[kind] = self.classes.name(kind.__name__, kind.__module__)
            self.classes.add(known.rpartition(".")[0], self._write_class(kind, known))
        return known

    def _write_class(self, kind: Any, qualified: str) -> str:
        if is_named_tuple(kind):  # fields without a type are tensors
            hints = typing.get_type_hints(kind)
            rows = [f"  {name} : {type_text(hints.get(name, Tensor), self.declare)}"
                    for name in kind._fields]
            return "\n".join([f"class {qualified.rpartition('.')[2]}(NamedTuple):", *rows]) + "\n"
        if issubclass(kind, enum.Enum):
            return script_classes.write_enum(kind, qualified)
        if vars(kind).get("_torchscript_interface") is kind:
            return script_classes.write_interface(kind, qualified, self.declare)
        return script_classes.write_script_class(kind, qualified, self)

    def register_enum_member(self, member: enum.Enum) -> str:
        """Return the expression for an Enum member."""
        return f"{self.declare(type(member))}.{member.name}"

    def grad_mode(self, enabled: bool) -> str:
        """Add the context class that enables or disables gradients; return its name."""
        space, name = "__torch__.torch.autograd.grad_mode", "enable_grad" if enabled else "no_grad"
        text = _GRAD_MODE.format(name=name, enabled=enabled)
        if text not in self.classes.code.get(space, ""):
            self.classes.add(space, text)
        return f"{space}.{name}"

    def _instance(self, module: Module, seen: dict[int, Instance]) -> Instance:
        """Write the class and object of a module, and those of its descendants."""
        if id(module) in seen:
            return seen[id(module)]
        if is_embedded(module):
            return self.embedded.instance(module)
        children = {name: self._instance(child, seen) for name, child in module._modules.items()
                    if child is not None}
        attributes = {}
        written = self.state.names(module)
        hints = typing.get_type_hints(type(module)) if written else {}
        tensors = {**module._parameters, **module._buffers}
        for name in sorted(written - set(tensors) - {"training"}):
            value = getattr(module, name)
            kind = type_text(hints[name], self.declare) if name in hints \
                else type_of_value(value, self.declare)
            attributes[name] = (kind, _convert_value(self, value))
        attributes |= {name: ("Tensor", value) for name, value in vars(module).items()
                       if isinstance(value, Tensor)}
        attributes = _collect_settings(module) | attributes
        text = "".join(self._methods.get(id(module), {}).values())
        library = _find_quantized_library()
        packed = None if library is None else library.find_packed_weights(module)
        if packed is not None:  # its state is the tensors and numbers to repack from
            kind, state = packed
            attributes = {"_packed_params": (f"__torch__.torch.classes.quantized.{kind}", None)}
            result = seen[id(module)] = self.classes.module(
                module, self._names[id(module)], text, {}, attributes)
            result.attributes = state
            return result
        hooks = self._hooks.get(id(module))
        interfaces = {name: self.declare(kind)
                      for name, kind in _find_interfaces(module).items()}
        result = seen[id(module)] = self.classes.module(
            module, self._names[id(module)], text, children, attributes, kinds=interfaces,
            declarations=[] if hooks is None else hooks.declarations())
        return result


def _find_interfaces(module: Module) -> dict[str, type]:
    """Return the interfaces that a module's class declares for submodules."""
    return {name: kind for name, kind in read_hints(type(module)).items()
            if hasattr(kind, "_torchscript_interface") and name in module._modules}


def _write_implementations(script: Any) -> None:
    """Write the methods of interfaces for each module that may be assigned to an attribute."""
    modules = list(script.module.modules())
    for interface in {kind for module in modules for kind in _find_interfaces(module).values()}:
        for module in modules:
            if is_embedded(module) or explain_class_mismatch(type(module), interface):
                continue
            for name in list_methods(interface):
                if name == "forward":
                    script.call_module(module)
                else:
                    script.call_method(module, name)


def _convert_value(script: Script, value: Any) -> Any:
    """Convert an attribute's value to its archived form."""
    if isinstance(value, enum.Enum):
        return Call(script.declare(type(value)), value.value)
    if isinstance(value, tuple):
        items = tuple(map(partial(_convert_value, script), value))
        return Call(script.declare(type(value)), items) if is_named_tuple(type(value)) else items
    if isinstance(value, list):
        return list(map(partial(_convert_value, script), value))
    if isinstance(value, dict):
        return {_convert_value(script, k): _convert_value(script, v) for k, v in value.items()}
    if is_written_class(type(value)):
        known = script._objects.get(id(value))
        if known is None:
            script._objects[id(value)] = known = Instance(script.declare(type(value)))
            for name in script_classes.list_attribute_types(type(value), script):
                known.attributes[name] = _convert_value(script, getattr(value, name))
        return known
    return value


def preserve(module: Any, path: str, state: ModuleState) -> list[tuple[Module, str]]:
    """Let an attribute or those of a submodule be read at run time; return a method to write."""
    *parents, name = path.split(".")
    for part in parents:
        module = getattr(module, part)
    value = getattr(module, name)
    if isinstance(value, Module):
        for inner in value.modules():
            for setting in _collect_settings(inner):
                state.change(inner, setting)
    elif callable(value):
        return [(module, name)]
    elif not isinstance(value, Tensor):
        state.change(module, name)
    return []


def _collect_settings(module: Module) -> dict[str, tuple[str, Any]]:
    """Return the types and values of a user module's plain settings.

    The code inlines them; the attributes are for users of the loaded module.
    """
    if type(module).__module__.startswith("flambeau."):
        return {}
    return {name: (type_of_value(value), value) for name, value in vars(module).items()
            if not name.startswith("_") and name != "training" and _is_setting(value)}


def _is_setting(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return len({type(v) for v in value}) == 1 and all(map(_is_setting, value))
    return value is None or type(value) in (int, float, bool, str)
