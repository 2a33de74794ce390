"""The names of `torch.nn.modules.module`: Module, and registration of hooks common to all modules.

Module itself is in flambeau/nn/module.py.
"""

import sys
from collections.abc import Callable as Callable  # what Module's annotations name, which
from types import ModuleType
from typing import Any as Any  # typing.get_type_hints looks for here

from .. import global_hooks
from ..global_hooks import (
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from ..hooks import _WrappedHook as _WrappedHook
from ..module import Module
from ..module import _addindent as _addindent
from ..state_dict import _EXTRA_STATE_KEY_SUFFIX as _EXTRA_STATE_KEY_SUFFIX
from ..state_dict import _IncompatibleKeys as _IncompatibleKeys

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]


class _Names(ModuleType):
    """This module's class: assigning to a name of global hooks replaces the hooks modules call."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in global_hooks.HOOKS:
            global_hooks.replace(name, value)
        else:
            super().__setattr__(name, value)


globals().update(global_hooks.HOOKS)
sys.modules[__name__].__class__ = _Names
