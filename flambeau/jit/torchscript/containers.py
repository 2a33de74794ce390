"""TorchScript operators on numbers, strings, lists and dicts; some also apply to tensors.

Archives call them like aten operators: `torch.append(list, value)`, `torch.len(dict)`,
`torch.add(2, 3)`. The argument types select the implementation.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from typing import Any

from ...tensor.tensor import Tensor

__all__ = ["MIXED", "PLAIN"]


# ------------------------------------------------------------------------------------- strings


def _format(text: str, *values: Any) -> str:
    """Fill each `{}` with a value. Fields cannot name attributes of a value."""
    parts = text.split("{}")
    shown = [str(v) for v in values[: len(parts) - 1]]
    shown += ["{}"] * (len(parts) - 1 - len(shown))
    return "".join(p + s for p, s in zip(parts, [*shown, ""], strict=True))


def _format_percent(text: str, *values: Any) -> str:
    single = values[0] if len(values) == 1 and isinstance(values[0], tuple) else values
    return text % tuple(single)


def _join(separator: str, values: list[str]) -> str:
    return separator.join(values)


def _wrap_str_method(name: str) -> Callable[..., Any]:
    """Return a method of str as a function."""
    method = getattr(str, name)

    def call(text: str, *args: Any) -> Any:
        result = method(text, *args)
        return list(result) if isinstance(result, tuple) and name == "splitlines" else result

    return call


# --------------------------------------------------------------------------- lists and dicts


def _slice(values: Any, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return values[start:end:step]


def _pop(values: Any, *at: Any) -> Any:
    return values.pop(*at)


def _sort(values: list[Any], reverse: bool = False) -> None:
    values.sort(reverse=reverse)


def _sorted(values: Any, reverse: bool = False) -> list[Any]:
    return sorted(values, reverse=reverse)


def _measure_range(start: int, stop: int, step: int) -> int:
    return len(range(start, stop, step))


def _derive_index(index: int, start: int, step: int) -> int:
    return start + index * step


def _contains(values: Any, value: Any) -> bool:
    return value in values


def _negate(value: Any) -> bool:
    return not value


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value


def _convert(kind: type) -> Callable[..., Any]:
    def convert(value: Any = 0, *base: Any) -> Any:
        return kind(value, *base)

    return convert


def _unwrap(value: Any) -> Any:
    if value is None:
        raise AssertionError("Unwrapping null optional")
    return value


PLAIN: dict[str, Callable[..., Any]] = {
    "format": _format, "percentFormat": _format_percent, "join": _join, "ord": ord, "chr": chr,
    "hex": hex, "oct": oct, "bin": builtins.bin, "str": str, "list": list, "dict": dict,
    "tuple": tuple, "range": range, "zip": zip, "enumerate": enumerate, "print": print,
    "int": _convert(int), "float": _convert(float), "bool": _convert(bool),
    "complex": _convert(complex), "Int": _convert(int), "Float": _convert(float),
    "Bool": _convert(bool), "Complex": _convert(complex), "IntImplicit": _number,
    "FloatImplicit": _number, "ScalarImplicit": _number, "ComplexImplicit": _number,
    "append": lambda values, value: values.append(value) or values,
    "extend": lambda values, added: values.extend(added),
    "insert": lambda values, index, value: values.insert(index, value),
    "remove": lambda values, value: values.remove(value),
    "reverse": lambda values: values.reverse(), "sorted": _sorted, "pop": _pop,
    "popitem": lambda values: values.popitem(), "keys": lambda values: list(values),
    "values": lambda values: list(values.values()), "items": lambda values: list(values.items()),
    "get": lambda values, key, *default: values.get(key, *default),
    "setdefault": lambda values, key, value: values.setdefault(key, value),
    "update": lambda values, added: values.update(added),
    "__contains__": _contains, "__not__": _negate, "__is__": lambda a, b: a is b,
    "__isnot__": lambda a, b: a is not b, "__range_length": _measure_range,
    "__derive_index": _derive_index, "_unwrap_optional": _unwrap, "unwrap_optional": _unwrap,
    "unchecked_unwrap_optional": _unwrap, "divmod": divmod,
    **{name: _wrap_str_method(name) for name in (
        "capitalize", "center", "endswith", "expandtabs", "find", "isalnum", "isalpha",
        "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric", "isprintable", "isspace",
        "istitle", "isupper", "ljust", "lower", "lstrip", "partition", "replace", "rfind",
        "rindex", "rjust", "rpartition", "rsplit", "rstrip", "splitlines", "startswith", "strip",
        "swapcase", "title", "upper", "zfill")},
}


def _divide(a: Any, b: Any, **_: Any) -> Any:
    return a / b


# Names shared with tensor operators: used if no argument is a tensor.
MIXED: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": _divide,
    "floordiv": operator.floordiv, "remainder": operator.mod, "pow": operator.pow,
    "neg": operator.neg, "abs": abs, "eq": operator.eq, "ne": operator.ne, "lt": operator.lt,
    "le": operator.le, "gt": operator.gt, "ge": operator.ge, "__and__": operator.and_,
    "__or__": operator.or_, "__xor__": operator.xor, "__lshift__": operator.lshift,
    "__rshift__": operator.rshift, "add_": operator.iadd, "mul_": operator.imul,
    "bitwise_not": operator.invert, "matmul": operator.matmul,
    "min": min, "max": max, "sum": sum, "all": all, "any": any, "round": round, "len": len,
    "slice": _slice, "sort": _sort, "copy": lambda values: values.copy(),
    "clear": lambda values: values.clear(), "count": lambda values, *args: values.count(*args),
    "index": lambda values, *args: values.index(*args),
    "split": lambda text, *how: text.split(*how), "item": lambda value: value,
    "trunc": math.trunc, "fmod": math.fmod, "mod": math.fmod, "log": math.log,
    **{name: getattr(math, name) for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign", "cos",
        "cosh", "degrees", "erf", "erfc", "exp", "expm1", "factorial", "floor", "frexp", "gamma",
        "gcd", "isfinite", "isinf", "isnan", "ldexp", "lgamma", "log10", "log1p", "log2", "modf",
        "radians", "sin", "sinh", "sqrt", "tan", "tanh")},
    **{f"g_in_place_{name}": function for name, function in (
        ("add", operator.iadd), ("sub", operator.isub), ("mul", operator.imul),
        ("div", operator.itruediv), ("floordiv", operator.ifloordiv),
        ("remainder", operator.imod), ("pow", operator.ipow), ("__and__", operator.iand),
        ("__or__", operator.ior), ("__xor__", operator.ixor), ("__lshift__", operator.ilshift),
        ("__rshift__", operator.irshift), ("matmul", operator.imatmul))},
}
