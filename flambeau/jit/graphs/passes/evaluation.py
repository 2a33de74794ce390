"""Nodes whose results depend on nothing but constants, and what they compute."""

from __future__ import annotations

from typing import Any

from ....autograd import no_grad
from ....export.aten_functions import scalar_type
from ....tensor.devices import device
from ....tensor.tensor import Tensor
from ...torchscript import operators
from ..nodes import Node, Value
from ..schemas import find_schema

__all__ = ["NOT_CONSTANT", "evaluate_node", "is_pure", "read_constant"]

NOT_CONSTANT = object()
_LARGEST = 1 << 24  # elements of a tensor that is worth keeping instead of computing
_RANDOM = frozenset(("rand", "randn", "randint", "randperm", "bernoulli", "dropout", "normal",
                     "multinomial", "poisson", "rand_like", "randn_like", "randint_like",
                     "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "rrelu",
                     "native_dropout", "empty", "empty_like", "empty_strided", "bernoulli_",
                     "is_grad_enabled", "is_autocast_enabled", "seed", "manual_seed",
                     "set_grad_enabled", "warn", "_fw_primal", "detach"))
_PURE_PRIM = frozenset(("prim::min", "prim::max", "prim::abs", "prim::dtype", "prim::device",
                        "prim::layout", "prim::is_cuda", "prim::is_quantized", "prim::shape",
                        "prim::ndim", "prim::is_sparse", "prim::is_meta", "prim::is_mkldnn",
                        "prim::NumToTensor", "prim::is_nested", "prim::is_cpu"))
_PURE_ATEN = frozenset("""
    __not__ __is__ __isnot__ __contains__ add sub mul div floordiv remainder pow neg eq ne lt le gt
    ge __and__ __or__ __xor__ __lshift__ __rshift__ len str Int Float Bool Complex format
    __getitem__ __range_length __derive_index size dim numel select slice unsqueeze index ord chr
    lower upper strip join percentFormat abs round sum min max all any floor ceil sqrt
    is_floating_point startswith endswith find split __upsample IntImplicit FloatImplicit
""".split())


def is_pure(node: Node) -> bool:
    """Return whether a node only computes, so that nobody misses it if its results are unused."""
    kind = node.kind()
    space, _, name = kind.partition("::")
    if kind in ("prim::Constant", "prim::GetAttr", "prim::ListConstruct", "prim::TupleConstruct",
                "prim::DictConstruct", "prim::TupleUnpack", "prim::TupleIndex", "prim::isinstance",
                "prim::unchecked_cast", "prim::Uninitialized", "prim::EnumName", "aten::keys",
                "prim::EnumValue", "prim::ListUnpack", "aten::values", "aten::items", "aten::list",
                "aten::copy", "aten::get", "aten::__range", "prim::CreateObject"):
        return True
    if kind in _PURE_PRIM:
        return True
    if space != "aten" or name in _RANDOM:
        return False
    schema = find_schema(node)
    return name in _PURE_ATEN if schema is None else not schema.is_mutable


def read_constant(value: Value) -> Any:
    """Return a constant, or the list or tuple that a node makes of some, else NOT_CONSTANT."""
    node = value.node()
    if node.kind() == "prim::Constant":
        if isinstance(node.constant, str) and value.type().kind() in ("EnumType", "FunctionType"):
            return NOT_CONSTANT
        return node.constant
    if node.kind() in ("prim::ListConstruct", "prim::TupleConstruct"):
        parts = [read_constant(part) for part in node.arguments]
        if NOT_CONSTANT in [part if part is NOT_CONSTANT else None for part in parts]:
            return NOT_CONSTANT
        return parts if node.kind() == "prim::ListConstruct" else tuple(parts)
    return NOT_CONSTANT


def evaluate_node(node: Node) -> list[Any] | None:
    """Return the results of a pure operator of constants, or None for other nodes."""
    space, _, name = node.kind().partition("::")
    if not node.results or space not in ("aten", "prim") or name in ("detach", "CreateObject"):
        return None
    if not (space == "aten" or node.kind() in _PURE_PRIM or node.kind() == "prim::TupleIndex") \
            or not is_pure(node):
        return None
    values = [read_constant(value) for value in node.arguments]
    if any(value is NOT_CONSTANT for value in values):
        return None
    try:
        with no_grad():
            result = _run(node, name if space == "aten" else f"prim.{name}", values)
    except Exception:  # the program shall fail when it runs
        return None
    results = list(result) if len(node.results) > 1 else [result]
    return results if all(map(_may_keep, results)) else None


def _run(node: Node, name: str, values: list[Any]) -> Any:
    if node.kind() == "prim::TupleIndex":
        return values[0][values[1]]
    function = operators.find(name)
    schema = find_schema(node)
    if schema is None:
        count = len(values) - len(node.keywords)
        return function(*values[:count], **dict(zip(node.keywords, values[count:], strict=True)))
    pairs = list(zip(schema.arguments, values, strict=True))
    positional = [value for a, value in pairs if not a.kwarg_only]
    named = {a.name: scalar_type(value) if a.name == "dtype" else value
             for a, value in pairs if a.kwarg_only and value != a.default_value}
    defaults = [a.default_value for a, _ in pairs if not a.kwarg_only and not a.required]
    while defaults and positional and _equals(positional[-1], defaults[-1]):
        positional.pop()
        defaults.pop()
    return function(*positional, **named)


def _equals(value: Any, default: Any) -> bool:
    return type(value) is type(default) and not isinstance(value, Tensor) and value == default


def _may_keep(value: Any) -> bool:
    if isinstance(value, Tensor):
        return type(value) is Tensor and value.numel() <= _LARGEST
    return value is None or isinstance(value, (bool, int, float, complex, str, device))
