"""torch._ops: operators as classes, and HigherOrderOperator, the base class of those that take
functions.

flambeau has no dispatcher: a call goes to the first that exists of the rules for autograd, the
active mode, an argument's class and the kernel. Inside vmap and grad the same rules run, on
examples and on recorded tensors; those for a `TransformType` are never called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from .library import OpOverload, OpOverloadPacket
from .ops.interception import torch_dispatch
from .ops.registration.dispatch_keys import DispatchKey
from .overrides import handle_torch_function, has_torch_function
from .tensor import Tensor
from .tensor.tree import get_leaves

__all__ = ["HigherOrderOperator", "OpOverload", "OpOverloadPacket"]

# The keys of a plain tensor, from the highest priority to the lowest.
_AUTOGRAD = ("AutogradCPU", "Autograd")
_KERNELS = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")

_higher_order_ops: dict[str, HigherOrderOperator] = {}


class HigherOrderOperator(ABC):
    """An operator that may take functions; subclass it, and give it rules with `py_impl`.

    Raises TypeError if instantiated itself, NotImplementedError for a call without a matching rule.

    >>> from flambeau._ops import HigherOrderOperator
    >>> from flambeau._C import DispatchKey
    >>> class Twice(HigherOrderOperator):
    ...     def __init__(self):
    ...         super().__init__("twice")
    ...     def __call__(self, f, x):
    ...         return super().__call__(f, x)
    >>> twice = Twice()
    >>> rule = twice.py_impl(DispatchKey.CompositeExplicitAutograd)(lambda f, x: f(f(x)))
    >>> twice(torch.neg, torch.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, name: str, *, cacheable: bool = False) -> None:
        self._name = self.__name__ = name
        self._ns, self.__module__ = "higher_order", "torch.ops.higher_order"
        self._cacheable = cacheable
        self.py_kernels: dict[Any, Callable] = {}
        self.python_key_table: dict[type, Callable] = {}
        self.functorch_table: dict[Any, Callable] = {}
        _higher_order_ops[name] = self

    def py_impl(self, k: Any) -> Callable[[Callable], Callable]:
        """Return a decorator for the rule of a dispatch key, a TorchDispatchMode or a tensor class.
        """
        if isinstance(k, DispatchKey):
            table: dict[Any, Callable] = self.py_kernels
        elif isinstance(k, type):
            table = self.python_key_table
        else:
            table = self.functorch_table

        def register(fn: Callable) -> Callable:
            if k in table and table is self.py_kernels:
                raise RuntimeError(f"Trying to override a python impl for {k} on operator "
                                   f"{self.name()}")
            table[k] = fn
            return fn

        return register

    def py_autograd_impl(self, fn: Callable) -> Callable:
        """Register the rule for autograd; also a decorator."""
        return self.py_impl(DispatchKey.Autograd)(fn)

    def py_functionalize_impl(self, fn: Callable) -> Callable:
        """Store the rule for functionalization, which is never called; also a decorator."""
        self.functorch_table["functionalize"] = fn
        return fn

    def fallthrough(self, dispatch_key: Any) -> None:
        """Make calls skip a key."""
        self.py_kernels.pop(dispatch_key, None)

    def has_kernel_for_dispatch_key(self, k: Any) -> bool:
        """Whether there is a rule for a key."""
        return k in self.py_kernels

    @abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = tuple(x for x in get_leaves((args, kwargs)) if isinstance(x, Tensor))
        if has_torch_function(tensors):
            return handle_torch_function(self, tensors, *args, **kwargs)
        rule = self._rule(_AUTOGRAD)
        if rule is not None:
            return rule(*args, **kwargs)
        modes = torch_dispatch.STATE.modes
        if modes:
            return self._call_mode(modes[-1], args, kwargs)
        for tensor in tensors:
            rule = self.python_key_table.get(type(tensor))
            if rule is not None:
                return rule(*args, **kwargs)
        rule = self._rule(_KERNELS)
        if rule is not None:
            return rule(*args, **kwargs)
        raise NotImplementedError(
            f"could not find kernel for HigherOrderOperator {self._name} at dispatch key "
            "DispatchKey.CompositeExplicitAutograd"
        )

    def _rule(self, keys: tuple[str, ...]) -> Callable | None:
        """Return the rule of the first key that has one, or None."""
        for key in keys:
            rule = self.py_kernels.get(DispatchKey[key])
            if rule is not None:
                return rule
        return None

    def _call_mode(self, mode: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call the rule for the mode, which is off during the call, or the mode's own handler."""
        rule = self.python_key_table.get(type(mode))
        torch_dispatch.leave()
        try:
            if rule is not None:
                return rule(mode, *args, **kwargs)
            return mode.__torch_dispatch__(self, (), args, kwargs)
        finally:
            torch_dispatch.enter(mode)

    def name(self) -> str:
        """Return the operator's name."""
        return self._name

    @property
    def namespace(self) -> str:
        """The operator's namespace under torch.ops."""
        return self._ns

    def __str__(self) -> str:
        return self._name
