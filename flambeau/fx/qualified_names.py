"""Names by which generated code and printed graphs refer to functions and types.

Internally flambeau's functions live in other modules than the public names say. Programs know them
as `torch.relu` or `torch.nn.functional.relu`, and PyTorch's graphs show some by their C++ path.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

from ..ops.core import aten
from ..tensor.tensor import Tensor

__all__ = [
    "find_node_name",
    "format_function",
    "import_of_torch",
    "is_from_torch",
    "method_name",
    "qualified_name",
    "snake_case",
    "torch_module",
    "type_repr",
]

_PACKAGE = __name__.partition(".")[0]
_CAMEL = re.compile(r"(?<=[a-z])[A-Z]")

# Public namespaces, and the paths under which PyTorch's graphs show their functions.
_SPACES = {
    "": "", "nn.functional": "nn.functional.", "linalg": "_C._linalg.linalg_",
    "fft": "_C._fft.fft_", "special": "_C._special.special_", "nn.init": "nn.init.",
    "utils.checkpoint": "utils.checkpoint.", "autograd": "autograd.",
}
_IN_FUNCTIONAL = frozenset("""
    atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod
    cdist chain_matmul einsum lu meshgrid norm split stft tensordot unique unique_consecutive
    unravel_index
""".split())
_IN_RANDOM = frozenset("get_rng_state initial_seed manual_seed seed set_rng_state".split())
# nn.functional functions that are builtins of torch._C._nn, and those that are torch builtins.
_IN_NN = frozenset("""
    avg_pool2d avg_pool3d elu_ gelu hardtanh_ leaky_relu_ linear one_hot
    scaled_dot_product_attention softplus softshrink
""".split())
_IN_TORCH = frozenset("""
    adaptive_avg_pool1d avg_pool1d bilinear celu_ channel_shuffle conv1d conv2d conv3d conv_tbc
    conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity hardshrink
    native_channel_shuffle pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu relu_ rrelu_
    selu_ threshold_
""".split())
_MOVED = {
    "nn.functional.logsigmoid": "_C._nn.log_sigmoid",
    "nn.functional.threshold": "nn.functional._threshold", "vmap": "func.vmap",
    "segment_reduce": "_segment_reduce", "load": "serialization.load",
    "save": "serialization.save", "pca_lowrank": "_lowrank.pca_lowrank",
    "svd_lowrank": "_lowrank.svd_lowrank", "lobpcg": "_lobpcg.lobpcg",
}
# Functions shared by torch and nn.functional that graphs show as nn.functional's.
_RATHER_FUNCTIONAL = frozenset(("celu", "rms_norm", "selu"))


@functools.cache
def torch_module() -> Any:
    """Return the package that generated code calls `torch`."""
    return importlib.import_module(_PACKAGE)


def import_of_torch() -> str:
    """Return the statement that imports `torch` in generated code."""
    is_alias = sys.modules.get("torch") is torch_module()
    return "import torch" if is_alias else f"import {_PACKAGE} as torch"


def snake_case(name: str) -> str:
    """Convert `BatchNorm` to `batch_norm`."""
    return _CAMEL.sub(lambda match: "_" + match[0], name).lower()


def _find_path_in_pytorch(space: str, name: str) -> str:
    """Return the path below torch that PyTorch's graphs show for a public function."""
    path = f"{space}.{name}" if space else name
    if path in _MOVED:
        return _MOVED[path]
    if space == "nn.functional":
        if name in _IN_NN:
            return f"_C._nn.{name}"
        if name in _IN_TORCH:
            return name
    if not space:
        if name in _IN_FUNCTIONAL:
            return f"functional.{name}"
        if name in _IN_RANDOM:
            return f"random.{name}"
    return _SPACES[space] + name


def _public_functions() -> Iterator[tuple[str, str, Any]]:
    for space in _SPACES:
        module = functools.reduce(getattr, space.split(".") if space else (), torch_module())
        public = module.__dir__() if "__dir__" in vars(module) else vars(module)
        for name in public:
            value = vars(module).get(name) or (getattr(module, name, None) if space else None)
            if callable(value) and not name.startswith("__"):
                yield space, name, value


@functools.cache
def index_public_names() -> dict[Any, str]:
    """Map each public function or class to its path, as PyTorch's graphs show it.

    If a function has several names, the one equal to its `__name__` wins.
    """
    names: dict[Any, str] = {}
    certain: set[Any] = set()
    for space, name, value in _public_functions():
        try:
            if value in certain:
                continue
        except TypeError:  # unhashable
            continue
        spelled_name = getattr(value, "__name__", "")
        spelled = f"{space}_{name}" if space in ("linalg", "fft", "special") else name
        shared = space == "" and name in _RATHER_FUNCTIONAL
        if spelled == spelled_name and not shared:
            certain.add(value)
            names[value] = "torch." + _find_path_in_pytorch(space, name)
        else:
            names.setdefault(value, "torch." + _find_path_in_pytorch(space, name))
    return names


@functools.cache
def _index_method_names() -> dict[Any, str]:
    """Map each function that is a Tensor method to the method's name, preferring public names."""
    names: dict[Any, str] = {}
    for name in sorted(dir(Tensor), key=lambda name: (name.startswith("_"), name)):
        value = inspect.getattr_static(Tensor, name)
        if inspect.isfunction(value):
            names.setdefault(value, name)
    return names


def _find_public(obj: Any) -> str | None:
    try:
        return index_public_names().get(obj)
    except TypeError:
        return None


def method_name(function: Any) -> str | None:
    """Return the name of a function that exists only as a Tensor method or property, or None."""
    if getattr(function, "__name__", "") == "__get__":
        return "__get__"
    if _find_public(function) is not None:
        return None
    try:
        return _index_method_names().get(function)
    except TypeError:
        return None


def is_from_torch(obj: Any) -> bool:
    """Return whether generated code can name the object by a path below `torch`."""
    if isinstance(obj, types.ModuleType):
        return False
    module = getattr(obj, "__module__", None)
    if isinstance(obj, (aten.Overload, aten.Packet)):
        return True
    if isinstance(module, str):
        base, _, rest = module.partition(".")
        return base in ("torch", _PACKAGE) and not rest.startswith(("_dynamo.", "_inductor."))
    return _find_public(obj) is not None


def _find_module_path(obj: Any) -> str:
    """Return the object's module, as programs spell it."""
    module = getattr(obj, "__module__", None) or ""
    if module.partition(".")[0] == _PACKAGE:
        return "torch" + module.removeprefix(_PACKAGE)
    return module


def _name_of_lambda(function: Any) -> str:
    try:
        return inspect.getsource(function).split("=")[0].strip()
    except Exception as error:
        raise RuntimeError("Unable to represent lambda") from error


def qualified_name(function: Any) -> str:
    """Return the dotted path of a function or class.

    >>> from flambeau.fx.node import _get_qualified_name
    >>> _get_qualified_name(torch.relu), _get_qualified_name(len)
    ('torch.relu', 'len')
    """
    if isinstance(function, (aten.Overload, aten.Packet)):
        return f"torch.ops.{function}"
    public = _find_public(function)
    if public is not None:
        return public
    name = function.__name__
    if getattr(builtins, name, None) is function:
        return name
    method = method_name(function)
    if method is not None:
        return f"torch.Tensor.{method}"
    if name == "<lambda>":
        name = _name_of_lambda(function)
    module = _find_module_path(function)
    if not module:
        for guess in (torch_module(), torch_module().nn.functional):
            if getattr(guess, name, None) is function:
                return f"{guess.__name__}.{name}".replace(_PACKAGE, "torch", 1)
        raise RuntimeError(f"cannot find module for {function}")
    if module.startswith("torch.ops.quantized."):  # a namespace spread over several files
        module = "torch.ops.quantized"
    return f"{module.replace('torch._ops', 'torch.ops')}.{name}"


def find_node_name(function: Any) -> str:
    """Return the node name for a call of the function, before it is made unique."""
    if isinstance(function, aten.Overload):
        return snake_case(function.__name__)
    public = _find_public(function)
    name = public.rpartition(".")[2] if public is not None else function.__name__
    return snake_case(name)


def type_repr(obj: Any) -> str:
    """Return a type's spelling in annotations of generated code."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        if obj.__module__ == "builtins":
            return obj.__qualname__
        public = _find_public(obj)
        if public is not None and public.count(".") == 1:
            return public
        return f"{_find_module_path(obj)}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    if isinstance(obj, types.FunctionType):
        return obj.__name__
    return repr(obj)


def format_function(function: Any) -> Any:
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
