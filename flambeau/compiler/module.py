"""OptimizedModule: what `compile` makes of a module. It owns the module and calls it compiled."""

from __future__ import annotations

from typing import Any

from ..nn.module import Module
from .api import Compiled

_OWN = frozenset(("_orig_mod", "_compiled", "training"))


class OptimizedModule(Module):
    """A module whose call is compiled; everything else is the module's own, at `_orig_mod`."""

    def __init__(self, module: Module, options: dict[str, Any]) -> None:
        super().__init__()
        self._orig_mod = module
        self.training = module.training
        self.__dict__["_compiled"] = Compiled(module.__call__, options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the module, compiled where it can be."""
        return self.__dict__["_compiled"](*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The same as calling it."""
        return self(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        modules = self.__dict__.get("_modules", {})
        if "_orig_mod" not in modules or name == "_orig_mod":
            return super().__getattr__(name)
        if name == "explain" and not hasattr(modules["_orig_mod"], name):
            return self.__dict__["_compiled"].explain
        return getattr(modules["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN or "_orig_mod" not in self.__dict__.get("_modules", {}):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __repr__(self) -> str:
        return super().__repr__()

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(
            "a compiled module cannot be pickled: save its state_dict(), or pickle the module "
            "itself, compiled._orig_mod"
        )
