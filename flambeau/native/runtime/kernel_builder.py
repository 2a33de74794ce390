"""References to the functions that build kernels, resolved when the first kernel is built.

Eager operators declare at import which builder they use, and import its module (and the loop IR)
only then: a program on small tensors never does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..loop_ir.ir import Kernel


class KernelBuilder:
    """A function of a module of flambeau.native.kernels; part of the key of its kernels."""

    __slots__ = ("module", "name")

    declared: ClassVar[list[KernelBuilder]] = []

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name
        self.declared.append(self)

    def __repr__(self) -> str:
        return f"{self.module}.{self.name}"

    def resolve(self) -> Callable[..., Any]:
        """Import the function."""
        module = import_module(f"...kernels.{self.module}", __name__)
        return getattr(module, self.name)

    def build(self, type_name: str, *settings: Any) -> Kernel:
        """Build the kernel for elements of a type."""
        from ..loop_ir.ir import Type

        kernel: Kernel = self.resolve()(Type(type_name), *settings)
        return kernel
