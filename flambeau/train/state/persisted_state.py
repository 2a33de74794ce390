"""State of callbacks that outlives the process: saved with the run, restored on resume."""

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
    """The names under which callbacks persist, and their values."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, Any]] = {}  # of run.persist, by name
        self.owners: dict[str, Any] = {}  # callbacks' handles by name
        self.objects: dict[str, Any] = {}  # objects with state_dict by name
        self.waiting: dict[str, Any] = {}  # loaded states of objects that are not attached yet

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
        self._claim(name, handle)
        if stateful:
            self.objects[name] = callback
            if name in self.waiting:
                callback.load_state_dict(self.waiting.pop(name))
        return name

    def _claim(self, name: str, handle: Any) -> None:
        owner = self.owners.setdefault(name, handle)
        if owner is not handle:
            raise ValueError(
                f"two callbacks persist under the name '{name}' ({owner.title} and "
                f"{handle.title}): what one saves the other would load. Give one another name"
            )

    def release(self, name: str, handle: Any) -> None:
        """Forget a detached callback, but keep its state."""
        if self.owners.get(name) is handle:
            del self.owners[name]
        callback = self.objects.pop(name, None)
        if callback is not None:
            self.waiting[name] = callback.state_dict()

    def persist(self, name: str | None, task: Task | None, defaults: dict[str, Any]) -> Persisted:
        """Return the values under a name, by default the running generator callback's."""
        handle = None if task is None else task.handle
        if name is None:
            name = getattr(getattr(handle, "function", None), "name", None)
            if name is None:
                raise ValueError("run.persist needs a name: run.persist('best', loss=math.inf)")
        if handle is not None and self.owners.get(name) is not handle:
            self._claim(name, handle)
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
        """Return the values of `run.persist` and the states of callbacks, by name."""
        objects = {name: callback.state_dict() for name, callback in self.objects.items()}
        values = {name: dict(values) for name, values in self.values.items()}
        return {"values": values, "objects": {**self.waiting, **objects}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of `state_dict`; callbacks attached later load theirs on attachment."""
        for name, values in state["values"].items():
            self.values.setdefault(name, {}).update(values)
        for name, saved in state["objects"].items():
            if name in self.objects:
                self.objects[name].load_state_dict(saved)
            else:
                self.waiting[name] = saved
