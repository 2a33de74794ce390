"""State of callbacks that outlives the process: saved with the run, given back on resume."""

from __future__ import annotations

from typing import Any

from ..events.generators import Task


class Persisted:
    """Attributes that are saved with the run."""

    def __init__(self, values: dict[str, Any]) -> None:
        object.__setattr__(self, "_values", values)

    def __getattr__(self, name: str) -> Any:
        try:
            return object.__getattribute__(self, "_values")[name]
        except KeyError:
            raise AttributeError(f"nothing called '{name}' is persisted here") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._values[name] = value

    def __repr__(self) -> str:
        return f"Persisted({', '.join(f'{k}={v!r}' for k, v in self._values.items())})"


class Persistence:
    """Who persists under which name, and the values."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, Any]] = {}  # what run.persist gave out
        self.owners: dict[str, Any] = {}  # name: the handle of the callback
        self.objects: dict[str, Any] = {}  # name: an object with state_dict
        self.waiting: dict[str, Any] = {}  # loaded before its object was attached

    def declare(self, callback: Any, handle: Any) -> str | None:
        """Reserve and return the name under which a callback persists, or None if it does not.

        Callbacks with a `state_dict` persist, and generator callbacks with a `name`. Raises
        ValueError if the name is taken.
        """
        stateful = hasattr(callback, "state_dict") and hasattr(callback, "load_state_dict")
        name = getattr(callback, "name", None)
        if name is None and stateful:
            name = type(callback).__name__
        if not isinstance(name, str):
            return None
        self._take(name, handle)
        if stateful:
            self.objects[name] = callback
            if name in self.waiting:
                callback.load_state_dict(self.waiting.pop(name))
        return name

    def _take(self, name: str, handle: Any) -> None:
        owner = self.owners.setdefault(name, handle)
        if owner is not handle:
            raise ValueError(
                f"two callbacks persist under the name '{name}' ({owner.title} and "
                f"{handle.title}): what one saves the other would load. Give one another name"
            )

    def release(self, name: str, handle: Any) -> None:
        """Forget a detached callback, but not what it persisted."""
        if self.owners.get(name) is handle:
            del self.owners[name]
        stored = self.objects.pop(name, None)
        if stored is not None:
            self.waiting[name] = stored.state_dict()

    def persist(self, name: str | None, task: Task | None, defaults: dict[str, Any]) -> Persisted:
        """The values under a name, by default that of the running generator callback."""
        handle = None if task is None else task.handle
        if name is None:
            name = getattr(getattr(handle, "function", None), "name", None)
            if name is None:
                raise ValueError("run.persist needs a name: run.persist('best', loss=math.inf)")
        if handle is not None and self.owners.get(name) is not handle:
            self._take(name, handle)
            handle.undo.append(lambda: self.release(name, handle))
        values = self.values.setdefault(name, {})
        for key, value in defaults.items():
            values.setdefault(key, value)
        return Persisted(values)

    def forget(self) -> None:
        """Drop all saved values, for a run that starts from the beginning."""
        self.values.clear()
        self.waiting.clear()

    def state_dict(self) -> dict[str, Any]:
        """What `run.persist` gave out, and the states of callbacks, by name."""
        objects = {name: stored.state_dict() for name, stored in self.objects.items()}
        values = {name: dict(values) for name, values in self.values.items()}
        return {"values": values, "objects": {**self.waiting, **objects}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave; callbacks attached later get theirs then."""
        for name, values in state["values"].items():
            self.values.setdefault(name, {}).update(values)
        for name, saved in state["objects"].items():
            if name in self.objects:
                self.objects[name].load_state_dict(saved)
            else:
                self.waiting[name] = saved
