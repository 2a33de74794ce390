"""The keys under which libraries register kernels, sets of them, and keys switched off for a while.

flambeau has no dispatcher that goes by keys. Kernels for the CPU, Meta, Autograd and AutocastCPU
are called (`custom_operators.py`); those under other keys are kept, and never called.
"""

from __future__ import annotations

import enum
from typing import Any

from ...autograd.mode import MODE
from ..core.autocast import AUTOCAST, STATE

__all__ = ["DispatchKey", "DispatchKeySet"]

_BACKENDS = "CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 " \
            "PrivateUse3 Meta".split()
_SETS = ("", "Quantized", "Sparse", "SparseCsr", "NestedTensor", "Autograd")
# From the lowest priority to the highest, as PyTorch lists them.
_ALONE = (
    "Undefined Dense Quantized Sparse SparseCsr NestedTensor BackendSelect Python Functionalize "
    "Conjugate Negative ZeroTensor ADInplaceOrView AutogradOther AutogradFunctionality "
    "AutogradNestedTensor AutocastCPU AutocastMPS AutocastXPU AutocastIPU AutocastHPU AutocastCUDA "
    "AutocastPrivateUse1 FuncTorchBatched FuncTorchBatchedDecomposition FuncTorchVmapMode "
    "FuncTorchGradWrapper FuncTorchDynamicLayerBackMode FuncTorchDynamicLayerFrontMode PreDispatch "
    "PythonDispatcher PythonTLSSnapshot"
).split()
_ALIASES = (
    "Autograd CompositeImplicitAutograd CompositeImplicitAutogradNestedTensor "
    "CompositeExplicitAutograd CompositeExplicitAutogradNonFunctional"
).split()
_NAMES = [*_ALONE, *(s + b for s in _SETS for b in _BACKENDS), *_ALIASES]

# A class that is iterated over at run time, which the type checker reads as an enum of any names.
_make_enum: Any = enum.Enum  # of names that are known at run time only
DispatchKey: Any = _make_enum("DispatchKey", [(name, i) for i, name in enumerate(_NAMES)])
DispatchKey.__module__ = "torch._C"
DispatchKey.__int__ = lambda self: self.value


class DispatchKeySet:
    """A set of dispatch keys: `DispatchKeySet(key) | DispatchKeySet(other)`.

    >>> from flambeau._C import DispatchKey, DispatchKeySet
    >>> both = DispatchKeySet(DispatchKey.AutocastCPU).add(DispatchKey.AutocastCUDA)
    >>> both, both.has(DispatchKey.CPU)
    (DispatchKeySet(AutocastCPU, AutocastCUDA), False)
    """

    __slots__ = ("_keys",)

    def __init__(self, key: Any = None) -> None:
        self._keys = frozenset() if key is None else frozenset((key,))

    @classmethod
    def _of(cls, keys: frozenset[Any]) -> DispatchKeySet:
        result = cls()
        result._keys = keys
        return result

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys | other._keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys & other._keys)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys - other._keys)

    def add(self, key: Any) -> DispatchKeySet:
        """Return the set with one more key."""
        return self._of(self._keys | {key})

    def remove(self, key: Any) -> DispatchKeySet:
        """Return the set without a key."""
        return self._of(self._keys - {key})

    def has(self, key: Any) -> bool:
        """Return whether the key is in the set."""
        return key in self._keys

    def highestPriorityTypeId(self) -> Any:
        """Return the key that a call dispatches to first; Undefined for the empty set."""
        return max(self._keys, key=int, default=DispatchKey.Undefined)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(key.name for key in sorted(self._keys, key=int))})"


class _ExcludeDispatchKeyGuard:
    """A region in which this thread passes over the keys of a set: autocast's are what flambeau
    can pass over. ADInplaceOrView has no effect, so that views keep their bases.
    NotImplementedError for other keys.
    """

    def __init__(self, keys: DispatchKeySet) -> None:
        others = [key.name for key in keys._keys
                  if not key.name.startswith("Autocast") and key.name != "ADInplaceOrView"]
        if others:
            raise NotImplementedError(
                f"torch._C._ExcludeDispatchKeyGuard for {', '.join(sorted(others))}: flambeau "
                "excludes autocast's keys alone"
            )
        self._autocast = keys.has(DispatchKey.AutocastCPU)
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(STATE.enabled)
        if self._autocast and STATE.enabled:
            STATE.enabled = False
            AUTOCAST.count -= 1

    def __exit__(self, *exception: object) -> None:
        if self._before.pop() and not STATE.enabled:
            STATE.enabled = True
            AUTOCAST.count += 1


class ExcludeDispatchKeyGuard(_ExcludeDispatchKeyGuard):
    """An _ExcludeDispatchKeyGuard whose region begins when it is made, and ends with it."""

    def __init__(self, keys: DispatchKeySet) -> None:
        super().__init__(keys)
        self.__enter__()

    def __del__(self) -> None:
        if getattr(self, "_before", None):
            self.__exit__()


class _AutoDispatchBelowAutograd:
    """A region in which operators skip their kernels for Autograd, and the tape records nothing.

    It begins when the object is made, and ends with a `with` block or with the object.
    """

    def __init__(self) -> None:
        self._grad = MODE.grad
        MODE.grad = False
        MODE.below_autograd += 1
        self._is_open = True

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        self.__del__()

    def __del__(self) -> None:
        if self._is_open:
            self._is_open = False
            MODE.grad = self._grad
            MODE.below_autograd -= 1
