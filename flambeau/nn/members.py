"""Members: what a module holds, declared once for the parts that make up Module.

Each part is a separate class and reads what other parts keep.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..tensor import Tensor
from .parameter import Parameter

Calls = OrderedDict[int, Callable]  # hooks by the id of their handle
Marks = OrderedDict[int, bool]  # ids of hooks to call with kwargs, or always


class Members:
    """The attributes of a module; hook dictionaries are created on first access."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, Any]
    _is_full_backward_hook: bool | None

    _forward_hooks: Calls
    _forward_hooks_with_kwargs: Marks
    _forward_hooks_always_called: Marks
    _forward_pre_hooks: Calls
    _forward_pre_hooks_with_kwargs: Marks
    _backward_hooks: Calls
    _backward_pre_hooks: Calls
    _state_dict_hooks: Calls
    _state_dict_pre_hooks: Calls
    _load_state_dict_pre_hooks: Calls
    _load_state_dict_post_hooks: Calls

    if TYPE_CHECKING:
        forward: Callable[..., Any]

        def _get_name(self) -> str: ...

        def children(self) -> Iterator[Any]: ...
