"""How tables show functions: the way PyTorch prints its own, without flambeau's module paths."""

from __future__ import annotations

from typing import Any

from .qualified_names import is_from_torch, qualified_name

__all__ = ["printed_function"]


def printed_function(function: Any) -> Any:
    """Return a torch function's text as PyTorch prints it; return other objects unchanged.

    Functions that PyTorch implements in C++ print as builtins, Python ones as functions.
    """
    if not is_from_torch(function) or not hasattr(function, "__name__") or \
            isinstance(function, type) or hasattr(function, "overloadpacket"):
        return function
    path = qualified_name(function)
    name = path.rpartition(".")[2]
    if path == f"torch.{name}":
        return f"<built-in method {name} of type object at {id(type(function)):#x}>"
    if path.startswith("torch._C."):
        return f"<built-in function {name}>"
    return f"<function {name} at {id(function):#x}>"
