"""torch._library.simple_registry: what is registered for an operator besides kernels by dispatch
key: its fake kernel, and its rules for classes with `__torch_dispatch__`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ops.registration.custom_operators import find
from .utils import Kernel

__all__ = ["SimpleLibraryRegistry", "SimpleOperatorEntry", "singleton"]


class FakeImplHolder:
    """The fake kernel of an operator."""

    def __init__(self, operator: Any) -> None:
        self._operator, self.qualname = operator, operator.name()

    @property
    def kernel(self) -> Kernel | None:
        """The kernel with the place of its registration, or None."""
        if self._operator.fake is None:
            return None
        return Kernel(self._operator.fake, self._operator.fake_source)


class TorchDispatchRuleHolder:
    """An operator's rules for classes with `__torch_dispatch__`."""

    def __init__(self, operator: Any) -> None:
        self._operator = operator

    def find(self, torch_dispatch_class: type) -> Callable[..., Any] | None:
        """Return the rule of a class, or None."""
        rule: Callable[..., Any] | None = self._operator.dispatch_rules.get(torch_dispatch_class)
        return rule


class SimpleOperatorEntry:
    """What is registered for one operator."""

    def __init__(self, operator: Any) -> None:
        self.qualname = operator.name()
        self.fake_impl = self.abstract_impl = FakeImplHolder(operator)
        self.torch_dispatch_rules = TorchDispatchRuleHolder(operator)


class SimpleLibraryRegistry:
    """What is registered for all operators, by their names with overloads."""

    def find(self, qualname: str) -> SimpleOperatorEntry:
        """Return an operator's entry. Raises RuntimeError if there is no such operator."""
        return SimpleOperatorEntry(find(qualname))


singleton = SimpleLibraryRegistry()
