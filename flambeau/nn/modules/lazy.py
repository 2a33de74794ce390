"""LazyModuleMixin: a module whose parameters get their shapes from the first input."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from ...autograd import no_grad
from ..parameter import is_lazy

__all__ = ["LazyModuleMixin"]


if TYPE_CHECKING:
    from ..module import Module as _Mixed  # the class it is mixed into
else:
    _Mixed = object


class LazyModuleMixin(_Mixed):
    """Mixin, listed before the Module, for modules with uninitialized parameters.

    Subclasses define `initialize_parameters(*inputs)`, which materializes the parameters, and
    may set `cls_to_become`, the class of the module after its first call. Run one input through
    the module (or load a state_dict) before giving its parameters to an optimizer.
    """

    cls_to_become: type | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def _flambeau_held(self) -> Any:
        """Return names and values of the module's own parameters and buffers."""
        return itertools.chain(self._parameters.items(), self._buffers.items())

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        for name, value in self._flambeau_held():
            if value is not None and name not in self._non_persistent_buffers_set:
                # A tensor without a shape cannot be detached.
                keeps_variable = keep_vars or is_lazy(value)
                destination[prefix + name] = value if keeps_variable else value.detach()

    def _lazy_load_hook(self, state_dict: dict, prefix: str, *rest: Any) -> None:
        """Give each parameter the shape of the value about to be loaded into it."""
        for name, value in self._flambeau_held():
            loaded = state_dict.get(prefix + name)
            if loaded is not None and is_lazy(value) and not is_lazy(loaded):
                with no_grad():
                    value.materialize(loaded.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize the parameters from the inputs of the first call."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Test whether a parameter or buffer of this module, not its children, has no shape yet."""
        return any(is_lazy(value) for _, value in self._flambeau_held())

    def _infer_parameters(self, module: Any, args: tuple, kwargs: dict | None = None) -> None:
        """Hook before the first call: initialize the module, then remove the hooks."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        for hook in ("_initialize_hook", "_load_hook"):
            getattr(module, hook).remove()
            delattr(module, hook)
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> Any:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. "
            "Run a dummy forward pass to correctly initialize the modules"
        )
