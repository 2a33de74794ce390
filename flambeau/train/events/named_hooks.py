"""`run.hooks["on_forward"] = f`: a function per name, as in torchnet's engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from .other_libraries import TNT
from .suggestions import suggest

if TYPE_CHECKING:
    from .handlers import Handle
    from ..loop.run import Run

# torchnet's key: our attribute. (`t` counts finished steps, `maxepoch` is the number of epochs.)
_STATE = {
    "network": ("run", "net"), "optimizer": ("run", "optimizer"), "iterator": ("state", "data"),
    "maxepoch": ("state", "epochs"), "epoch": ("state", "epoch"), "t": ("state", "step"),
    "train": ("state", "training"), "sample": ("state", "batch"), "output": ("state", "y_pred"),
    "loss": ("state", "loss"),
}


class HookState(MutableMapping[str, Any]):
    """The state as torchnet's dict: `state["sample"]`, `state["loss"]`, and custom keys."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def _locate(self, key: str) -> tuple[Any, str]:
        owner, name = _STATE.get(key, ("state", key))
        return (self._run if owner == "run" else self._run.state), name

    def __getitem__(self, key: str) -> Any:
        owner, name = self._locate(key)
        if not hasattr(owner, name):
            raise KeyError(f"the state has no '{key}'{suggest(key, self)}")
        return getattr(owner, name)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(*self._locate(key), value)

    def __delitem__(self, key: str) -> None:
        delattr(*self._locate(key))

    def __iter__(self) -> Iterator[str]:
        yield from _STATE
        yield from (name for name in vars(self._run.state) if name not in _STATE)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Hooks(MutableMapping[str, Callable[[HookState], Any]]):
    """One function per hook name; it gets the state as a dict. Setting a hook replaces it.

    Raises KeyError, with suggestions, for an unknown name.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._state = HookState(run)
        self._set: dict[str, tuple[Callable[[HookState], Any], Handle]] = {}

    def __setitem__(self, name: str, function: Callable[[HookState], Any]) -> None:
        if name not in TNT:
            raise KeyError(f"there is no hook '{name}'{suggest(name, TNT)}")
        if not callable(function):
            raise TypeError(f"hooks['{name}'] must be a function of the state, got {function!r}")
        if name in self._set:
            del self[name]
        state = self._state
        handle = self._run.attach(TNT[name], lambda: function(state))
        handle.function = function
        self._set[name] = function, handle

    def __getitem__(self, name: str) -> Callable[[HookState], Any]:
        if name not in self._set:
            raise KeyError(f"no hook '{name}' is set{suggest(name, self._set)}")
        return self._set[name][0]

    def __delitem__(self, name: str) -> None:
        self._set.pop(name)[1].detach()

    def __iter__(self) -> Iterator[str]:
        return iter(self._set)

    def __len__(self) -> int:
        return len(self._set)
