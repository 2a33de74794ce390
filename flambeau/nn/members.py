"""Members: what a module holds, declared once for the parts that Module is put together from.

Each part is a class of its own and reads what another part keeps.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..tensor import Tensor
from .parameter import Parameter

Calls = OrderedDict[int, Callable]  # hooks by the number of their handle
Marks = OrderedDict[int, bool]  # those of the hooks that are to be called in a special way


class Members:
    """The attributes of a module; the dictionaries of hooks are made when they are asked for."""

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
