"""What a module owns: parameters, buffers and submodules, as attributes and by dotted path.

They live in the dictionaries `_parameters`, `_buffers` and `_modules`, not among the ordinary
attributes; `__getattr__` looks them up there.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from typing import Any

from ..native.foundation.public_names import class_name, class_of
from ..native.foundation.user_frames import add_notes
from ..ops.core.operator import PUBLIC
from ..tensor import Tensor
from . import global_hooks
from .members import Members
from .parameter import Buffer, Parameter

CALL_HOOKS = frozenset({
    "_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks",
})
HOOK_TABLES = CALL_HOOKS | {
    "_forward_hooks_always_called", "_forward_hooks_with_kwargs",
    "_forward_pre_hooks_with_kwargs", "_load_state_dict_post_hooks",
    "_load_state_dict_pre_hooks", "_state_dict_hooks", "_state_dict_pre_hooks",
}


class _Changes:
    """Counts changes to any module; compiled steps recheck their modules when it differs."""

    __slots__ = ("count",)

    count: int


CHANGES = _Changes()
CHANGES.count = 0


def _create_module_error(candidate: Any) -> TypeError:
    """The error for adding something that is not a module; names the module for a function."""
    public = next((name for name, value in PUBLIC["torch"].items() if value is candidate), None)
    if public is None:
        return TypeError(f"{_typename(candidate)} is not a Module subclass")
    return add_notes(
        TypeError(f"torch._VariableFunctionsClass.{public} is not a Module subclass"),
        f"torch.{public} is a function: add its module, as nn.ReLU() is that of torch.relu.",
    )


def _typename(x: Any) -> str:
    """The name of a type, or of an object's type, as in PyTorch's errors."""
    if isinstance(x, Tensor):
        return x.type()
    return class_name(x if hasattr(x, "__qualname__") else type(x))


def _check_name(role: str, name: Any, suffix: str = "") -> None:
    if not isinstance(name, str):
        raise TypeError(f"{role} name should be a string. Got {_typename(name)}")
    if "." in name:
        raise KeyError(f'{role} name can\'t contain "."{suffix}')
    if name == "":
        raise KeyError(f'{role} name can\'t be empty string ""')


def _run_hooks(hooks: dict[int, Any], module: Any, name: str, value: Any) -> Any:
    for hook in hooks.values():
        changed = hook(module, name, value)
        if changed is not None:
            value = changed
    return value


def _is_tensor_like(x: Any) -> bool:
    return isinstance(x, Tensor) or hasattr(x, "__torch_function__")


class Registration(Members):
    """The part of Module that keeps its members."""

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the module's state and is not trained.

        With persistent=False it is left out of the state_dict.
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        CHANGES.count += 1
        _check_name("buffer", name)
        if hasattr(self, name) and name not in self._buffers:
            raise KeyError(f"attribute '{name}' already exists")
        if tensor is not None and not _is_tensor_like(tensor):
            raise TypeError(
                f"cannot assign '{_typename(tensor)}' object to buffer '{name}' (torch Tensor or "
                "None required)"
            )
        self._buffers[name] = _run_hooks(global_hooks.buffer_registration, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter; None reserves the name."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        CHANGES.count += 1
        _check_name("parameter", name)
        if hasattr(self, name) and name not in self._parameters:
            raise KeyError(f"attribute '{name}' already exists")
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{_typename(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, compute "
                "the value in the forward() method."
            )
        self._parameters[name] = _run_hooks(
            global_hooks.parameter_registration, self, name, param
        )

    def add_module(self, name: str, module: Any) -> None:
        """Add a submodule; None reserves the name."""
        if not isinstance(module, Registration) and module is not None:
            raise _create_module_error(module)
        CHANGES.count += 1
        if not isinstance(name, str):
            raise TypeError(f"module name should be a string. Got {_typename(name)}")
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists")
        _check_name("module", name, f", got: {name}")
        self._modules[name] = _run_hooks(global_hooks.module_registration, self, name, module)

    def register_module(self, name: str, module: Any) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    # ---------------------------------------------------------------- as attributes

    def __getattr__(self, name: str) -> Any:
        attributes = self.__dict__
        if "_parameters" in attributes:
            result = attributes["_parameters"]
            if name in result:
                return result[name]
            result = attributes["_modules"]
            if name in result:
                return result[name]
            result = attributes["_buffers"]
            if name in result:
                return result[name]
            if name in HOOK_TABLES:
                return self._flambeau_hook_dictionary(name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _flambeau_hook_dictionary(self, name: str) -> OrderedDict:
        """Create a hook dictionary on first access."""
        CHANGES.count += 1
        if name in CALL_HOOKS:
            self.__dict__["_flambeau_is_hooked"] = True
        return self.__dict__.setdefault(name, OrderedDict())

    def __setattr__(self, name: str, value: Any) -> None:
        attributes = self.__dict__
        CHANGES.count += 1
        if not isinstance(value, (Tensor, Registration)) and (
            "_parameters" not in attributes
            or (
                name not in attributes["_parameters"]
                and name not in attributes["_modules"]
                and name not in attributes["_buffers"]
            )
        ):
            if name in CALL_HOOKS:
                attributes["_flambeau_is_hooked"] = True
            super().__setattr__(name, value)
        elif isinstance(value, Parameter):
            self._flambeau_set_parameter(name, value)
        elif name in attributes.get("_parameters", ()):
            if value is not None:
                raise add_notes(
                    TypeError(f"cannot assign '{_typename(value)}' as parameter '{name}' "
                              "(torch.nn.Parameter or None expected)"),
                    f"To set its numbers: self.{name}.data.copy_(...) under torch.no_grad(); for "
                    "another parameter: nn.Parameter(...).",
                )
            self.register_parameter(name, None)
        elif isinstance(value, Registration) or name in attributes.get("_modules", ()):
            self._flambeau_set_module(name, value)
        elif isinstance(value, Buffer) or name in attributes.get("_buffers", ()):
            self._flambeau_set_buffer(name, value)
        else:
            super().__setattr__(name, value)

    def _flambeau_forget(self, name: str, *others: str) -> None:
        """Remove a name from the ordinary attributes and from other kinds of members."""
        attributes = self.__dict__
        attributes.pop(name, None)
        for members in others:
            attributes[members].pop(name, None)
        attributes["_non_persistent_buffers_set"].discard(name)

    def _flambeau_set_parameter(self, name: str, value: Parameter) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameters before Module.__init__() call")
        stored = self._parameters
        if name in stored and value.grad_fn is None and not global_hooks.parameter_registration:
            stored[name] = value
            return
        self._flambeau_forget(name, "_buffers", "_modules")
        self.register_parameter(name, value)

    def _flambeau_set_module(self, name: str, value: Any) -> None:
        if "_modules" not in self.__dict__:
            raise AttributeError("cannot assign module before Module.__init__() call")
        if isinstance(value, Registration):
            self._flambeau_forget(name, "_parameters", "_buffers")
        elif value is not None:
            raise TypeError(
                f"cannot assign '{_typename(value)}' as child module '{name}' (torch.nn.Module or "
                "None expected)"
            )
        self._modules[name] = _run_hooks(global_hooks.module_registration, self, name, value)

    def _flambeau_set_buffer(self, name: str, value: Any) -> None:
        if value is not None and not _is_tensor_like(value):
            raise TypeError(
                f"cannot assign '{_typename(value)}' as buffer '{name}' (torch.nn.Buffer, "
                "torch.Tensor or None expected)"
            )
        if isinstance(value, Buffer):
            persistent = value.persistent
        else:
            persistent = name not in self._non_persistent_buffers_set
        # A subclass may override register_buffer with a signature older than `persistent`.
        if "persistent" in inspect.signature(self.register_buffer).parameters:
            self.register_buffer(name, value, persistent)
        elif persistent:
            self.register_buffer(name, value)
        else:
            raise RuntimeError(
                "Registering a non-persistent buffer on a Module subclass that implements "
                "register_buffer() without the persistent argument is not allowed."
            )

    def __delattr__(self, name: str) -> None:
        CHANGES.count += 1
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules,
                 *self._buffers]
        # Layers of a Sequential are named 0, 1, ..., which are not valid attribute names.
        return sorted(name for name in names
                      if not name[0].isdigit() and not name.startswith("_flambeau_"))

    # ---------------------------------------------------------------- by dotted path

    def get_submodule(self, target: str) -> Any:
        """Return the submodule at a path such as "encoder.layers.0"; the module itself for ""."""
        result = self
        for name in target.split(".") if target else ():
            result = _find_member(result, name)
            if not isinstance(result, Registration):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return result

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Set the module at a path, replacing any there; `strict` requires one to exist."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Registration):
            raise ValueError(f"`module` is not an nn.Module, found {class_of(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict or hasattr(parent, name):
            replaced = _find_member(parent, name)
            if not isinstance(replaced, Registration):
                raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a path such as "encoder.layers.0.weight"."""
        path, _, name = target.rpartition(".")
        result = _find_member(self.get_submodule(path), name)
        if not isinstance(result, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return result

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a path such as "encoder.norm.running_mean"."""
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        result = _find_member(parent, name)
        if name not in parent._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return result


def _find_member(module: Any, name: str) -> Any:
    if not hasattr(module, name):
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    return getattr(module, name)
