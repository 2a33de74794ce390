"""How tables show functions: as PyTorch prints its own, without addresses of flambeau's files."""

from __future__ import annotations

from typing import Any

from .qualified_names import is_from_torch, qualified_name

__all__ = ["printed_function"]


def printed_function(function: Any) -> Any:
    """The text of a function of torch's, as PyTorch prints it; other objects as they are.

    What PyTorch has in C++ prints as a builtin, what it has in Python as a function.
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
