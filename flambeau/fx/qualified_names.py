"""Names by which generated code and printed graphs refer to functions and types.

flambeau defines its functions in modules of its own; programs know them as `torch.relu` or
`torch.nn.functional.gelu`, so those are the names that appear.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import types
from typing import Any

from ..tensor.tensor import Tensor

__all__ = ["is_from_torch", "method_name", "node_name_of", "qualified_name", "torch_module",
           "type_repr"]  # fmt: skip

_PACKAGE = __name__.partition(".")[0]
# Where a function is looked for, in this order, and what its node's name begins with.
_NAMESPACES = (
    ("", ""), ("nn.functional", ""), ("_C._nn", ""), ("linalg", "linalg_"), ("fft", "fft_"),
    ("special", "special_"), ("nn.init", ""), ("utils.checkpoint", ""),
)  # fmt: skip
# Functions of nn.functional that PyTorch implements, and shows, as builtins of torch._C._nn.
NN_BUILTINS = {
    "avg_pool2d": "avg_pool2d", "avg_pool3d": "avg_pool3d", "gelu": "gelu", "linear": "linear",
    "logsigmoid": "log_sigmoid", "one_hot": "one_hot", "pad": "pad", "softplus": "softplus",
    "scaled_dot_product_attention": "scaled_dot_product_attention", "softshrink": "softshrink",
}  # fmt: skip


@functools.cache
def torch_module() -> Any:
    """What generated code calls `torch`."""
    return importlib.import_module(_PACKAGE)


@functools.cache
def _public_names() -> dict[Any, tuple[str, str]]:
    """For each public function: its name in torch, and the name that its nodes take."""
    names: dict[Any, tuple[str, str]] = {}
    for path, prefix in _NAMESPACES:
        space = functools.reduce(getattr, path.split(".") if path else (), torch_module())
        for name in [*vars(space), *(NN_BUILTINS if path == "_C._nn" else ())]:
            value = getattr(space, name, None)
            if name.startswith("__") or not callable(value):
                continue
            try:
                names.setdefault(value, (".".join(filter(None, ("torch", path, name))),
                                         prefix + name))  # fmt: skip
            except TypeError:  # unhashable
                continue
    functional = torch_module().nn.functional
    for name, builtin in NN_BUILTINS.items():
        names[getattr(functional, name)] = f"torch._C._nn.{builtin}", builtin
    return names


@functools.cache
def _method_names() -> dict[Any, str]:
    """For each function that is a method of Tensor: the method's name, the plainest first."""
    names: dict[Any, str] = {}
    for name in sorted(dir(Tensor), key=lambda name: (name.startswith("_"), name)):
        value = inspect.getattr_static(Tensor, name)
        if inspect.isfunction(value):
            names.setdefault(value, name)
    return names


def _public(obj: Any) -> tuple[str, str] | None:
    try:
        return _public_names().get(obj)
    except TypeError:
        return None


def method_name(function: Any) -> str | None:
    """The name of the Tensor method that is this function, or None."""
    try:
        return _method_names().get(function)
    except TypeError:
        return None


def is_from_torch(obj: Any) -> bool:
    """Whether generated code can name the object by a path below `torch`."""
    module = getattr(obj, "__module__", None)
    if isinstance(module, str):
        base = module.partition(".")[0]
        return base in ("torch", _PACKAGE) and not module.startswith((
            "torch._dynamo.", "torch.fx.experimental"
        ))
    return _public(obj) is not None


def _module_path(obj: Any) -> str:
    """The object's module, as programs spell it."""
    module = obj.__module__ or ""
    if module == "_operator":
        return "operator"
    if module.partition(".")[0] == _PACKAGE:
        return "torch" + module.removeprefix(_PACKAGE)
    return module


def _name_of_lambda(function: Any) -> str:
    try:
        return inspect.getsource(function).split("=")[0].strip()
    except Exception as error:
        raise RuntimeError("Unable to represent lambda") from error


def qualified_name(function: Any) -> str:
    """The dotted path of a function or class.

    >>> qualified_name(torch.relu), qualified_name(len), qualified_name(operator.add)
    ('torch.relu', 'len', 'operator.add')
    """
    name = getattr(function, "__name__", None)
    if name is not None and getattr(builtins, name, None) is function:
        return name
    public = _public(function)
    if public is not None:
        return public[0]
    if name is None:
        text = str(function)  # an operator of torch.ops
        return f"torch.ops.{text}" if _module_path(type(function)).startswith("torch") else text
    method = method_name(function)
    if method is not None:
        return f"torch.Tensor.{method}"
    if name == "<lambda>":
        name = _name_of_lambda(function)
    if isinstance(function, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return f"{function.__objclass__.__module__}.{function.__objclass__.__name__}.{name}"
    module = _module_path(function)
    return f"{module}.{name}" if module else name


def node_name_of(function: Any) -> str:
    """What a call of the function is called in a graph, before it is made unique."""
    public = _public(function)
    if public is not None:
        return public[1]
    name = getattr(function, "__name__", None) or str(function).rpartition("::")[2]
    if _module_path(type(function)).startswith("torch.ops"):
        name = str(function).partition(".")[2].replace(".", "_")
    return name


def type_repr(obj: Any) -> str:
    """A type, as annotations in generated code spell it."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        if obj.__module__ == "builtins":
            return obj.__qualname__
        public = _public(obj)
        if public is not None and public[0].count(".") == 1:
            return public[0]
        return f"{_module_path(obj)}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    if isinstance(obj, types.FunctionType):
        return obj.__name__
    return repr(obj)
