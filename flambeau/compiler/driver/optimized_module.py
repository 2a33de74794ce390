"""OptimizedModule: the compiled module that `compile` returns, which wraps the original."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from ...native.foundation.transparent_frames import skip_in_stacks
from ...native.runtime.frameless_call import DIRECT, Steps, call_in_python, install
from ...nn.module import Module
from ...nn.parallel import DistributedDataParallel
from ...nn.registration import HOOK_TABLES
from .compiled_function import Compiled

_WRAPPER_ATTRIBUTES = frozenset(("_orig_mod", "_compiled", "_compiled_call_impl"))


class _CompiledInside:
    """Calls a DistributedDataParallel whose inner module is compiled.

    The wrapper itself stays eager: it communicates with other processes on each call and waits for
    their gradients.
    """

    def __init__(self, module: DistributedDataParallel, options: dict[str, Any]) -> None:
        self._module, self._options = module, options
        self._inside = Compiled(module.module._call_impl, options)
        self.explain = self._inside.explain

    @skip_in_stacks
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        attributes = self._module.__dict__  # bypass __setattr__, which triggers rechecks of guards
        before = attributes["_flambeau_called"]
        attributes["_flambeau_called"] = self._inside
        try:
            return self._module._call_impl(*args, **kwargs)
        finally:
            attributes["_flambeau_called"] = before


def _create_compiled_call(module: Module, options: dict[str, Any] | None) -> Any:
    if options is None:
        return module._call_impl
    if isinstance(module, DistributedDataParallel):
        return _CompiledInside(module, options)
    return Compiled(module._call_impl, options)


class OptimizedModule(Module):
    """A module whose call is compiled; everything else is delegated to `_orig_mod`.

    Copies and unpickled modules recompile when first called.
    """

    def __init__(self, module: Module, options: dict[str, Any] | None) -> None:
        super().__init__()
        self.__dict__.pop("training")
        self._orig_mod = module
        self.__dict__["_compiled"] = _create_compiled_call(module, options)

    @skip_in_stacks
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module, compiled if possible, with this wrapper's hooks around it."""
        return call_in_python(self, args, kwargs)

    @skip_in_stacks
    def _flambeau_serve(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        compiled = self.__dict__["_compiled"]
        if self._flambeau_is_hooked or compiled.__class__ is not Compiled:
            return DIRECT
        return compiled._flambeau_serve(args, kwargs)

    def _flambeau_steps(self, args: tuple, kwargs: dict[str, Any]) -> Steps:
        steps: Steps = self.__dict__["_compiled"]._flambeau_steps(args, kwargs)
        return steps

    @property
    @skip_in_stacks
    def _flambeau_function(self) -> Any:
        if self._flambeau_is_hooked:
            return self._call_impl
        compiled = self.__dict__["_compiled"]
        return compiled._function if compiled.__class__ is Compiled else compiled

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module, compiled if possible."""
        return self.__dict__["_compiled"](*args, **kwargs)

    @property
    def dynamo_ctx(self) -> Any:
        """The compiled call. Libraries check for this attribute to recognize compiled modules."""
        return self.__dict__["_compiled"]

    @property
    def training(self) -> bool:
        """The module's training flag."""
        return self._orig_mod.training

    @training.setter
    def training(self, value: bool) -> None:
        self._orig_mod.training = value

    def __len__(self) -> int:
        if isinstance(self._orig_mod, Sized):
            return len(self._orig_mod)
        raise TypeError(f"{type(self._orig_mod).__name__} does not support len()")

    def __getattr__(self, name: str) -> Any:
        modules = self.__dict__.get("_modules", {})
        if "_orig_mod" not in modules or name == "_orig_mod" or name in HOOK_TABLES:
            return super().__getattr__(name)
        if name == "explain" and not hasattr(modules["_orig_mod"], name):
            return self.__dict__["_compiled"].explain
        return getattr(modules["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _WRAPPER_ATTRIBUTES or name == "training" \
                or "_orig_mod" not in self.__dict__["_modules"]:
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __reduce__(self) -> tuple[Any, ...]:
        options = getattr(self.__dict__["_compiled"], "_options", None)
        return OptimizedModule, (self._orig_mod, options)


install(OptimizedModule)


def compile_callable(function: Any, options: dict[str, Any]) -> Any:
    """Compile a function or module."""
    if isinstance(function, Module):
        return OptimizedModule(function, options)
    return Compiled(function, options)
