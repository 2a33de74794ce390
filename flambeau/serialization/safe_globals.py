"""Objects that `load(weights_only=True)` may create: a fixed list, plus the user's additions."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from ..tensor import Size, Tensor
from ..tensor.devices import device
from ..tensor.random.generator import Generator
from . import names, rebuild

Global = Callable[..., Any] | tuple[Callable[..., Any], str]

# Nothing in these modules can be allowed, not even by the user.
BLOCKED_MODULES = frozenset(("sys", "os", "posix", "nt"))
_KEY_BUDGET = 1000


class _Added:
    globals: frozenset[Global] = frozenset()


def add_safe_globals(safe_globals: list[Global]) -> None:
    """Allow `load(weights_only=True)` to use these classes and functions.

    An entry is the object, or a tuple of it and its name in files.

    >>> import fractions
    >>> torch.serialization.add_safe_globals([fractions.Fraction])
    >>> fractions.Fraction in torch.serialization.get_safe_globals()
    True
    >>> torch.serialization.clear_safe_globals()
    """
    _Added.globals |= set(safe_globals)


def get_safe_globals() -> list[Global]:
    """Return the user's additions.

    >>> with torch.serialization.safe_globals([complex]):
    ...     torch.serialization.get_safe_globals()
    [<class 'complex'>]
    """
    return list(_Added.globals)


def clear_safe_globals() -> None:
    """Remove the user's additions.

    >>> torch.serialization.clear_safe_globals()
    >>> torch.serialization.get_safe_globals()
    []
    """
    _Added.globals = frozenset()


class safe_globals:
    """Context manager that allows classes and functions.

    >>> import fractions
    >>> torch.save({"rate": fractions.Fraction(1, 3)}, "rate.pt")
    >>> with torch.serialization.safe_globals([fractions.Fraction]):
    ...     torch.load("rate.pt")
    {'rate': Fraction(1, 3)}
    """

    def __init__(self, safe_globals: list[Global]) -> None:
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        add_safe_globals(self.safe_globals)

    def __exit__(self, *exception: object) -> None:
        _Added.globals -= set(self.safe_globals)


def get_user_globals() -> dict[str, Any]:
    """Return the user's additions by full name. Raises ValueError or TypeError if malformed."""
    result: dict[str, Any] = {}
    for entry in _Added.globals:
        if not isinstance(entry, tuple):
            result[f"{entry.__module__}.{entry.__qualname__}"] = entry
            known = names.find_torch_name(entry)
            if known is not None:
                result[".".join(known)] = entry
            continue
        if len(entry) != 2:
            raise ValueError(
                "Expected tuple of length 2 (global, str of callable full path), but got tuple "
                f"of length: {len(entry)}"
            )
        if type(entry[1]) is not str:
            raise TypeError(
                "Expected second item in tuple to be str of callable full path, but got: "
                f"{type(entry[1])}"
            )
        result[entry[1]] = entry[0]
    return result


def check_key(key: Any) -> Any:
    """Return the key if it is cheap to hash: hashing a deep tuple would overflow the C stack."""
    pending, budget = [key], _KEY_BUDGET
    while pending:
        single = pending.pop()
        budget -= 1
        if budget < 0:
            raise ValueError("a key or a member of a set is nested too deeply")
        if isinstance(single, (tuple, frozenset)):
            pending.extend(single)
    return key


def check_keys(items: Iterable[Any]) -> list[Any]:
    return [check_key(item) for item in items]


def _encode(text: str, encoding: str = "latin1") -> bytes:
    # The codecs of bytes in protocol 2 pickles. Other codecs could run arbitrary code.
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1", "utf-8", "ascii"):
        raise TypeError("only text can be encoded, in latin1, utf-8 or ascii")
    return text.encode(encoding)


def _bytearray(*args: Any) -> bytearray:
    if not args:
        return bytearray()
    if len(args) == 2:
        return bytearray(_encode(*args))
    if len(args) != 1 or not isinstance(args[0], (bytes, bytearray)):
        raise TypeError("a bytearray can be made of bytes only")  # a number would be a size
    return bytearray(args[0])


def _set(items: Iterable[Any] = ()) -> set[Any]:
    return set(check_keys(items))


def _frozenset(items: Iterable[Any] = ()) -> frozenset[Any]:
    return frozenset(check_keys(items))


def _ordered_dict(items: Iterable[Any] = ()) -> OrderedDict[Any, Any]:
    if isinstance(items, dict):
        return OrderedDict(items)
    return OrderedDict((check_key(key), value) for key, value in items)


def _counter(items: Any = ()) -> Counter[Any]:
    return Counter(items if isinstance(items, dict) else check_keys(items))


def _parameter(data: Any = None, requires_grad: bool = True) -> Any:
    if data is not None and not isinstance(data, Tensor):
        raise TypeError(f"a Parameter's data is a {type(data).__name__}, not a Tensor")
    return rebuild.get_parameter_class()(data, requires_grad)


# Classes named by files, and the functions that replace their constructors.
CONSTRUCTORS: dict[Any, Callable[..., Any]] = {
    OrderedDict: _ordered_dict,
    Counter: _counter,
    set: _set,
    frozenset: _frozenset,
    bytearray: _bytearray,
    complex: complex,
    Size: Size,
    device: device,
}


@cache
def default_globals() -> dict[str, Any]:
    """Return what is always allowed, by full name."""
    allowed = {
        name: result
        for name, result in names.SPECIAL.items()
        if result is not names.FUNCTIONS and result is not Generator
    }
    allowed |= {
        "collections.OrderedDict": OrderedDict,
        "collections.Counter": Counter,
        "torch.nn.parameter.Parameter": rebuild.get_parameter_class(),
        "_codecs.encode": _encode,
        "builtins.bytearray": bytearray,
        "builtins.set": set,
        "builtins.frozenset": frozenset,
        "builtins.complex": complex,
    }
    return allowed


def find(module: str, name: str, user: dict[str, Any]) -> Any:
    """Return the named object. Raises LookupError, which says how to allow it, if not allowed."""
    full = f"{module}.{name}"
    if module.partition(".")[0] in BLOCKED_MODULES:
        raise LookupError(
            f"Trying to load unsupported GLOBAL {full} whose module {module} is blocked."
        )
    known = default_globals().get(full)
    if known is None and module in ("torch", "torch.storage", "torch.cuda", "torch.tensor"):
        known = names.find_special(full)
    if known is None:
        known = user.get(full)
    if known is None:
        shown = full.removeprefix("builtins.")
        raise LookupError(
            f"Unsupported global: GLOBAL {shown} was not an allowed global by default. Please use "
            f"`torch.serialization.add_safe_globals([{shown}])` or the "
            f"`torch.serialization.safe_globals([{shown}])` context manager to allowlist this "
            "global if you trust this class/function."
        )
    return known


@cache
def _list_callables() -> dict[int, Callable[..., Any]]:
    # By identity: a pickle may put unhashable objects in place of a function.
    functions = (
        *rebuild.REBUILDERS, rebuild._rebuild_from_type_v2, names._get_layout, _encode,
    )
    table: dict[int, Callable[..., Any]] = {id(function): function for function in functions}
    table |= {id(cls): stand_in for cls, stand_in in CONSTRUCTORS.items()}
    table[id(rebuild.get_parameter_class())] = _parameter
    return table


def is_built_in(function: Any) -> bool:
    """Return whether it is on the fixed list of callables."""
    return id(function) in _list_callables()


def call(function: Any, args: tuple[Any, ...], user: dict[str, Any]) -> Any:
    """Call an allowed function or class. Raises TypeError for others.

    Names such as `torch.Tensor` may appear in a file but not be called: a call could request any
    amount of memory.
    """
    stand_in = _list_callables().get(id(function))
    if stand_in is not None:
        return stand_in(*args)
    if any(function is allowed for allowed in user.values()):
        return function(*args)
    raise TypeError(f"{function!r} cannot be called by a file")
