"""The functions that `__torch_function__` can override, with their names and signatures."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ..ops.interception import subclass, torch_function
from ..tensor import Tensor

_SPACES = ("", "functional", "nn.functional", "nn.init", "linalg", "fft", "special")
# Functions without tensor arguments, or about tensors in general.
_IGNORED = frozenset("""
    arange as_tensor asarray bartlett_window blackman_window empty empty_permuted empty_strided
    eye fill_diagonal from_dlpack from_file from_numpy frombuffer full hamming_window hann_window
    kaiser_window linspace logspace normal ones rand randint randn randperm range scalar_tensor
    tensor tril_indices triu_indices vander zeros sym_float sym_int sym_max sym_min sym_not
    promote_types result_type can_cast is_grad_enabled set_grad_enabled manual_seed seed
    complex_ polar_ set_printoptions
""".split())


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Return the functions of torch that `__torch_function__` cannot override.

    >>> torch.ones in torch.overrides.get_ignored_functions()
    True
    """
    torch = importlib.import_module("flambeau")
    routed = torch_function.list_public_functions()
    names = {name for name in dir(torch) if not name.startswith("_")}
    functions = {getattr(torch, name) for name in names
                 if isinstance(getattr(torch, name, None), FunctionType)}
    return {f for f in functions if f not in routed or f.__name__ in _IGNORED}


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Return the functions whose results the default `__torch_function__` does not convert."""
    return subclass.default_nowrap_functions()


@functools.cache
def _index() -> tuple[dict[Any, list[Callable[..., Any]]], dict[Any, str]]:
    """Return (overridable functions by namespace, every function's public name)."""
    torch_function.meet(_Probe)
    routed = torch_function.list_public_functions()
    ignored = get_ignored_functions()
    spaces: dict[Any, list[Callable[..., Any]]] = {}
    names: dict[Any, str] = {}
    for accessor_of, property_ in torch_function.list_properties().items():
        names[property_.__get__] = f"torch.Tensor.{accessor_of}.__get__"
        names[property_.__set__] = f"torch.Tensor.{accessor_of}.__set__"
        spaces[property_] = [property_.__get__]
    for name, value in vars(Tensor).items():
        if isinstance(value, FunctionType) and value in routed:
            spaces.setdefault(Tensor, []).append(value)
            if value not in names or name == value.__name__:
                names[value] = f"torch.Tensor.{name}"
    for space in _SPACES:
        module = importlib.import_module("flambeau." + space if space else "flambeau")
        for name, value in sorted(vars(module).items()):
            if name.startswith("_") or not isinstance(value, FunctionType) or value not in routed:
                continue
            if not _is_named_so(names.get(value, ""), value):
                names[value] = f"torch.{space}.{name}" if space else f"torch.{name}"
            if not name.endswith("_") and value not in ignored:
                spaces.setdefault(module, []).append(value)
    return spaces, names


def _is_named_so(path: str, function: Callable[..., Any]) -> bool:
    """Return whether a path of a module ends in the function's own name, not in an alias of it."""
    return path.rpartition(".")[2] == function.__name__ and not path.startswith("torch.Tensor.")


class _Probe:
    """A class with `__torch_function__`: querying overridable functions implies overriding some."""

    __torch_function__ = classmethod(lambda *_: NotImplemented)


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Return the overridable functions by namespace.

    >>> torch.add in torch.overrides.get_overridable_functions()[torch]
    True
    """
    return _index()[0]


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return, for each overridable function, one with the same parameters that returns -1.

    >>> torch.overrides.get_testing_overrides()[torch.add](1, 2)
    -1
    """
    result = {}
    for functions in get_overridable_functions().values():
        for function in functions:
            result[function] = _with_parameters_of(function)
    return result


def _with_parameters_of(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        signature = inspect.signature(function)
    except ValueError:  # an accessor of C
        return lambda self: -1
    if getattr(function, "__name__", "") == "__get__":
        return lambda self: -1

    def override(*args: Any, **kwargs: Any) -> int:
        signature.bind(*args, **kwargs)
        return -1

    override.__signature__ = signature  # type: ignore[attr-defined]
    return override


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function is a method of Tensor or an accessor of one of its properties.

    >>> torch.overrides.is_tensor_method_or_property(torch.Tensor.shape.__get__)
    True
    """
    name = getattr(func, "__name__", "")
    return name == "__get__" or vars(Tensor).get(name) is func


def resolve_name(f: Any) -> str | None:
    """Return a function's public name, or None.

    >>> torch.overrides.resolve_name(torch.linalg.vector_norm)
    'torch.linalg.vector_norm'
    """
    if hasattr(f, "overloadpacket") or hasattr(f, "overloads"):
        return str(f)
    return _index()[1].get(f)
