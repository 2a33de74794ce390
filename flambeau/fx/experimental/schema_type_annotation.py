"""AnnotateTypesWithSchema: give nodes the types that functions and modules declare."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...jit import ScriptModule
from ...nn.module import Module
from ..interpreter import Transformer
from ..module_paths import attribute_at
from ..node import Argument
from ..operator_schemas import get_signature_for_torch_op
from ..proxy import Proxy

__all__ = ["AnnotateTypesWithSchema"]


class AnnotateTypesWithSchema(Transformer):
    """Copies a graph with `type` set from return annotations.

    Arguments:
        module: the graph module.
        annotate_functionals: annotate calls of functions whose signatures agree on a type.
        annotate_modules: annotate calls of modules whose `forward` declares one.
        annotate_get_attrs: annotate attributes with their class.

    >>> from flambeau.fx.experimental.schema_type_annotation import AnnotateTypesWithSchema
    >>> gm = torch.fx.symbolic_trace(nn.Sequential(nn.ReLU()))
    >>> gm = AnnotateTypesWithSchema(gm).transform()
    >>> [node.type.__name__ for node in gm.graph.nodes if node.op == "call_module"]
    ['Tensor']
    """

    def __init__(
        self, module: Module, annotate_functionals: bool = True, annotate_modules: bool = True,
        annotate_get_attrs: bool = True,
    ) -> None:
        super().__init__(module)  # type: ignore[arg-type]
        self.annotate_functionals = annotate_functionals
        self.annotate_modules = annotate_modules
        self.annotate_get_attrs = annotate_get_attrs

    def call_function(
        self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a function; its type comes from its signatures, else its annotation."""
        declared = None
        if self.annotate_functionals and getattr(target, "__module__", None) != "_operator":
            signatures = get_signature_for_torch_op(target) or ()
            types = {signature.return_annotation for signature in signatures}
            declared = types.pop() if len(types) == 1 else _read_result_type(target)
        return _set_type(super().call_function(target, args, kwargs), declared)

    def call_module(
        self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a module; the type comes from its forward's annotation."""
        called = super().call_module(target, args, kwargs)
        module = self.fetch_attr(target)
        if not self.annotate_modules or not hasattr(module, "forward"):
            return called
        return _set_type(called, _read_result_type(module.forward))

    def get_attr(self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Read an attribute; its class is the type, unless the module is scripted."""
        read = super().get_attr(target, args, kwargs)
        owner = self.module
        *above, _ = str(target).split(".")
        if above:
            owner = attribute_at(self.module, ".".join(above))
        if not self.annotate_get_attrs or isinstance(owner, ScriptModule):
            return read
        value = attribute_at(self.module, str(target))
        typed: Proxy = _set_type(read, type(value))
        return typed


def _set_type(value: Any, declared: Any) -> Any:
    """Set a proxy's type, if it has none."""
    if isinstance(value, Proxy) and declared not in (None, inspect.Signature.empty):
        value.node.type = value.node.type or declared
    return value


def _read_result_type(function: Callable[..., Any]) -> Any:
    """Return a function's return annotation; None without one."""
    try:
        annotation = inspect.signature(function, eval_str=True).return_annotation
    except (TypeError, ValueError, NameError):  # NameError: a name imported for type checkers only
        return None
    return None if annotation is inspect.Signature.empty else annotation
