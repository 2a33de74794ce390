"""Containers of modules: Sequential, ModuleList, ModuleDict."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import chain
from typing import Any

from ...native.foundation.public_names import class_of
from ...native.foundation.user_frames import warn
from .module import Module
from .parametercontainer import ParameterDict, ParameterList, convert_index, pair_elements

__all__ = [
    "Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential",
]


class Container(Module):
    """Deprecated: a Module that registers the modules passed by name."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in "
            "`nn.Module`. Subclass that instead.",
            FutureWarning,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Numbered(Module):
    """Shared by Sequential and ModuleList: modules named "0", "1", ... in order."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def _flambeau_renumber(self) -> None:
        self._modules = {str(i): module for i, module in enumerate(self._modules.values())}

    def _flambeau_make_room(self, index: int, module: Module) -> None:
        """Insert a module at an index and move later ones up by one."""
        for i in range(len(self._modules), index, -1):
            self._modules[str(i)] = self._modules[str(i - 1)]
        self._modules[str(index)] = module

    def append(self, module: Module) -> Any:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Take a module out and return it; those after it move down."""
        container: Any = self  # subclasses define the lookup
        module = container[key]
        del container[key]
        return module


class Sequential(_Numbered):
    """Chain of modules, each applied to the output of the one before.

    Accepts the modules, or an OrderedDict from names to modules.

    >>> nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    Sequential(
      (0): Linear(in_features=4, out_features=2, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def _flambeau_key(self, index: int) -> str:
        """The name of the module at an index; negative indices count from the end."""
        return list(self._modules)[int(convert_index(index, len(self)))]

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._flambeau_key(idx)]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._flambeau_key(idx), module)

    def __delitem__(self, idx: int | slice) -> None:
        keys = list(self._modules)[idx] if isinstance(idx, slice) else [self._flambeau_key(idx)]
        for key in keys:
            delattr(self, key)
        self._flambeau_renumber()

    def __add__(self, other: Sequential) -> Sequential:
        _check_sequential(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Sequential:
        _check_sequential(other)
        return self.extend(list(other))

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*list(self) * _check_factor(self, other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Sequential:
        return self.extend(list(self) * (_check_factor(self, other) - 1))

    def insert(self, index: int, module: Module) -> Sequential:
        """Insert a module before the one at `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        self._flambeau_make_room(index + n if index < 0 else index, module)
        return self

    def extend(self, sequential: Iterable[Module]) -> Sequential:
        """Append modules at the end."""
        for module in sequential:
            self.append(module)
        return self


def _check_sequential(other: Any) -> None:
    if not isinstance(other, Sequential):
        raise ValueError(
            "add operator supports only objects of Sequential class, but "
            f"{class_of(other)} is given."
        )


def _check_factor(module: Module, factor: Any) -> int:
    if not isinstance(factor, int):
        raise TypeError(
            f"unsupported operand type(s) for *: {class_of(module)} and {class_of(factor)}")
    if factor <= 0:
        raise ValueError(f"Non-positive multiplication factor {factor} for {class_of(module)}")
    return factor


class ModuleList(_Numbered):
    """List of registered modules.

    >>> layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def _get_abs_string_index(self, idx: Any) -> str:
        return convert_index(idx, len(self))

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self._modules.values())[idx])
        return self._modules[self._get_abs_string_index(idx)]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._get_abs_string_index(idx), module)

    def __delitem__(self, idx: int | slice) -> None:
        if isinstance(idx, slice):
            for i in range(len(self))[idx]:
                delattr(self, str(i))
        else:
            delattr(self, self._get_abs_string_index(idx))
        self._flambeau_renumber()

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def insert(self, index: int, module: Module) -> None:
        """Insert a module before the one at `index`."""
        n = len(self)
        index = operator.index(index)
        self._flambeau_make_room(max(index + n, 0) if index < 0 else min(index, n), module)

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Append modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleList.extend should be called with an iterable, but got "
                + type(modules).__name__
            )
        for module in list(modules):
            self.append(module)
        return self

    def __repr__(self) -> str:
        """Runs of modules that print the same are shown once: `(0-3): 4 x Linear(...)`."""
        runs: list[list[Any]] = []
        for i, text in enumerate(map(repr, self)):
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        if not runs:
            return self._get_name() + "()"
        lines = []
        for first, last, text in runs:
            start = f"({first})" if first == last else f"({first}-{last}): {last - first + 1} x"
            separator = ": " if first == last else " "
            lines.append("  " + f"{start}{separator}{text}".replace("\n", "\n  "))
        return "\n".join([self._get_name() + "(", *lines, ")"])


class ModuleDict(Module):
    """Dictionary of registered modules, in insertion order.

    >>> heads = nn.ModuleDict({"digits": nn.Linear(8, 10), "letters": nn.Linear(8, 26)})
    >>> heads["letters"](torch.zeros(2, 8)).shape, list(heads)
    (torch.Size([2, 26]), ['digits', 'letters'])
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove a module and return it."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Module]:
        """Return the (name, module) pairs."""
        return self._modules.items()

    def values(self) -> ValuesView[Module]:
        """Return the modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add or replace modules, from a mapping or from pairs."""
        mapping = isinstance(modules, (Mapping, ModuleDict))
        for key, module in modules.items() if mapping else pair_elements("ModuleDict", modules):
            self[key] = module
