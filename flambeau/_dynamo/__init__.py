"""torch._dynamo: what programs ask of PyTorch's compiler, as far as it means something here.

Settings are taken and have no effect: flambeau.compile has none of these choices to make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

from ..compiler import allow_in_graph, disable, is_compiling, reset

__all__ = [
    "allow_in_graph", "assume_constant_result", "config", "disable", "explain", "graph_break",
    "is_compiling", "is_dynamo_supported", "is_inductor_supported", "list_backends",
    "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic", "reset",
]


class Settings:
    """Any setting may be set, and is remembered; one that was not set is None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    @contextmanager
    def patch(self, name: Any = None, value: Any = None, **changes: Any) -> Iterator[None]:
        """A region, or a decorated function, with other settings: a name and its value, or a
        dictionary, or keywords."""
        changes |= name if isinstance(name, dict) else {} if name is None else {name: value}
        before = dict(self.__dict__)
        self.__dict__.update(changes)
        try:
            yield
        finally:
            self.__dict__.clear()
            self.__dict__.update(before)


config = Settings()


def mark_dynamic(t: Any, index: Any, **options: Any) -> None:
    """Accepted: flambeau.compile(dynamic=True) keeps programs for several shapes."""


maybe_mark_dynamic = mark_dynamic


def mark_static(t: Any, index: Any = None) -> None:
    """Accepted: a program is made for its shapes."""


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Accepted: programs look at where tensors lie on each call."""


def assume_constant_result(fn: Callable) -> Callable:
    """The function itself: what it gives is looked at like all else that a step reads."""
    return fn


def graph_break(msg: str = "") -> None:
    """Accepted: a step is one program, or stays eager."""


def is_dynamo_supported() -> bool:
    """True: flambeau.compile runs on every Python that flambeau runs on."""
    return True


is_inductor_supported = is_dynamo_supported


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """Names that `torch.compile(backend=...)` is given; flambeau has one compiler.

    >>> from flambeau import _dynamo
    >>> _dynamo.list_backends()
    ['inductor']
    """
    return ["inductor"]


def explain(f: Callable, *extra_args: Any, **extra_kwargs: Any) -> NoReturn:
    """Raise NotImplementedError: programs end where flambeau.compile says, not at graph breaks."""
    error = NotImplementedError("torch._dynamo.explain is not implemented in flambeau")
    error.add_note("torch.compile(f).explain() says what a compiled function runs, and why not "
                   "more of it")
    raise error


def __getattr__(name: str) -> Any:
    if name in ("eval_frame", "exc", "utils"):
        return import_module(f"{__name__}.{name}")
    if name == "OptimizedModule":
        return import_module(f"{__name__}.eval_frame").OptimizedModule
    raise AttributeError(f"module 'torch._dynamo' has no attribute '{name}'")
