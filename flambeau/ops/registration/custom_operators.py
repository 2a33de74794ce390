"""Custom operators such as `torch.ops.mylib.foo`, defined with torch.library.

An operator has a schema, kernels by dispatch key, and optional fake, autograd and vmap rules.
Calls run the CPU kernel; on meta tensors they run the fake kernel, which only computes shapes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NoReturn

from ...autograd.inplace import bump
from ...autograd.mode import MODE
from ...tensor.tensor import Tensor
from ...tensor.tree import collect_leaves
from ...tensor.windows.batch import find_innermost_batch
from ..core.autocast import AUTOCAST, STATE
from ..core.errors import MISSING, Overriding
from ..interception import torch_dispatch
from ..interception.batched_functions import apply_own_rule
from .autograd_fallback import note_backward
from .custom_autograd import RecordedCall, create_function
from .schema import Schema
from .schema_types import check_types
from .tags import Tag

# Keys whose kernels serve the CPU, the most specific first.
CPU_KEYS = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "")
AUTOGRAD_KEYS = ("AutogradCPU", "Autograd")


class CustomOperator:
    """One overload of a custom operator. Calling it dispatches."""

    def __init__(self, namespace: str, schema: Schema) -> None:
        self.namespace, self._schema = namespace, schema
        self._opname, self._overloadname = schema.opname, schema.overload_name or "default"
        self.__name__ = f"{schema.opname}.{self._overloadname}"
        self.__module__ = f"torch._ops.{namespace}"
        self.kernels: dict[str, Callable] = {}
        self.fake: Callable | None = None
        self.fake_source = ""  # the file and line where it was registered
        self.report_missing: Callable[[str], NoReturn] | None = None  # by dispatch key
        self.backward: Callable | None = None
        self.setup_context: Callable | None = None
        self.opaque = False  # made by custom_op: autograd does not look inside the kernel
        self.vmap: Callable | None = None
        self.tags: list[Tag] = []
        self.dispatch_rules: dict[type, Callable] = {}  # by the class they stand in for
        self._node: Any = None

    def name(self) -> str:
        """Return `namespace::name`, with `.overload` if it has one."""
        rest = f".{self._schema.overload_name}" if self._schema.overload_name else ""
        return f"{self.namespace}::{self._opname}{rest}"

    @property
    def _name(self) -> str:
        return self.name()

    @property
    def _defined_in_python(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self._opname}', " \
               f"overload='{self._overloadname}')>"

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = Overriding.ask_mode(self, args, kwargs)
        return self.run(args, kwargs) if result is MISSING else result

    def run(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Dispatch a call that no mode has taken."""
        passed = len(args) + self._schema.count_named(kwargs)
        args, kwargs = self._schema.bind(args, kwargs)
        tensors = collect_leaves(Tensor, (args, kwargs))
        if any(t.device.type == "meta" for t in tensors):
            return self._infer_shapes(args, kwargs)
        if self.vmap is not None and (batch := find_innermost_batch((*args, *kwargs.values()))):
            # Gradients of one example; those below the vmap pass through the rule's operators.
            if MODE.grad and any(t.requires_grad and batch.holds(t) for t in tensors):
                raise RuntimeError(
                    "In order to use an autograd.Function with functorch transforms (vmap, grad, "
                    "jvp, jacrev, ...), it must override the setup_context staticmethod. For more "
                    "details, please see https://pytorch.org/docs/main/notes/extending.func.html")
            return apply_own_rule(self.vmap, batch, args, kwargs)
        if AUTOCAST.count and STATE.enabled and "AutocastCPU" in self.kernels:
            return self.kernels["AutocastCPU"](*args, **kwargs)
        for key in AUTOGRAD_KEYS:
            if key in self.kernels and not MODE.below_autograd:
                return self.kernels[key](*args, **kwargs)
        is_recorded = MODE.grad and any(t.requires_grad for t in tensors)
        if is_recorded and (self.opaque or self.backward is not None):
            return self._record_call(args, kwargs, passed)
        result = self.compute(args, kwargs)
        if is_recorded and not MODE.below_autograd and not self._is_composite():
            return note_backward(self, tensors, result)
        return result

    def _is_composite(self) -> bool:
        """Whether the kernel's own operators are meant to be recorded."""
        key = next((key for key in CPU_KEYS if key in self.kernels), "")
        return key in ("CompositeImplicitAutograd", "")

    def compute(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run the kernel, or hand over to a `__torch_dispatch__` mode or class."""
        if torch_dispatch.is_asked(args, kwargs):
            return torch_dispatch.hand_over(self, args, kwargs)
        if self.report_missing is not None and not any(key in self.kernels for key in CPU_KEYS):
            if "BackendSelect" in self.kernels:  # made for calls without tensors
                return self.kernels["BackendSelect"](*args, **kwargs)
            self.report_missing("CPU" if collect_leaves(Tensor, (args, kwargs)) else "Undefined")
        result = self.kernel()(*args, **kwargs)
        if self.opaque:
            self._check_results(args, kwargs, result)
        return result

    def _check_results(self, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        """Count the writes that the schema names. RuntimeError for a result that is an argument."""
        memory = {id(_get_owner(t)) for t in collect_leaves(Tensor, (args, kwargs))}
        for tensor in collect_leaves(Tensor, result):
            if id(owner := _get_owner(tensor)) in memory:
                kernel = inspect.getmodule(inspect.unwrap(self.kernel()))
                raise RuntimeError(
                    f"{self.name()} (with implementation in {kernel}): The output of this custom "
                    "operator (1) must not also be an input to this custom operator and (2) may "
                    "not alias any inputs to this custom operator or other returns. The most "
                    "common way to trigger this error is if we have y = custom_op(x) and y and x "
                    "are the same Tensor. Please instead return a clone of the offending output "
                    "tensor(s) (e.g. return x.clone()) or refactor the custom operator to not "
                    "return y.")
            memory.add(id(owner))
        if self._schema.is_mutable:
            for argument, value in self._schema.pairs(args, kwargs):
                if argument.is_written:
                    for tensor in collect_leaves(Tensor, value):
                        bump(tensor)

    def kernel(self) -> Callable:
        """Return the CPU kernel. Raise NotImplementedError if none is registered."""
        for key in CPU_KEYS:
            if key in self.kernels:
                return self.kernels[key]
        raise NotImplementedError(
            f"Could not run '{self.name()}' with arguments from the 'CPU' backend: it has kernels "
            f"for {sorted(self.kernels) or 'none'}"
        )

    def _infer_shapes(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        fake = self.fake or self.kernels.get("Meta")
        if fake is None and self.opaque:
            if self._schema.is_mutable and not self._schema.returns:
                return None  # what else could it compute
            raise RuntimeError(
                f"There was no fake impl registered for <CustomOpDef({self.name()})>. This is "
                "necessary for torch.compile/export/fx tracing to work. Please use "
                f"`{self._opname}.register_fake` to add an fake impl.")
        for key in ("CompositeExplicitAutograd", "CompositeImplicitAutograd"):
            fake = fake or self.kernels.get(key)
        if fake is None:
            raise NotImplementedError(
                f"{self.name()}: attempted to run this operator with Meta tensors, but there was "
                "no fake impl or Meta kernel registered."
            )
        return fake(*args, **kwargs)

    def _record_call(self, args: tuple, kwargs: dict[str, Any], passed: int) -> Any:
        if self._node is None:
            self._node = create_function(self)
        call = RecordedCall(args, kwargs, passed)
        return call.restore_results(self._node.apply(call, *call.tensors))


def _get_owner(tensor: Tensor) -> Tensor:
    return tensor if tensor._base is None else tensor._base


class CustomPacket:
    """An operator with its overloads as attributes. Calls run the first overload that fits."""

    def __init__(self, namespace: str, name: str) -> None:
        self._qualified_op_name = f"{namespace}::{name}"
        self.__name__ = name
        self._operators: dict[str, Any] = {}

    def add(self, operator: CustomOperator) -> None:
        """Add an overload."""
        self._operators[operator._overloadname] = operator

    def overloads(self) -> list[str]:
        """Return the overloads' names."""
        return list(self._operators)

    def __getattr__(self, name: str) -> CustomOperator:
        result = self.__dict__.get("_operators", {})
        if name in result:
            return result[name]
        raise AttributeError(
            f"The underlying op of '{self.__dict__.get('_qualified_op_name')}' has no overload "
            f"name '{name}'"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for value in args:  # let recorders such as fx proxies intercept
            kind = type(value)
            if not isinstance(value, Tensor) and hasattr(kind, "__torch_function__"):
                return kind.__torch_function__(self, (kind,), args, kwargs)
        result = Overriding.ask_mode(self, args, kwargs)
        return self.run(args, kwargs) if result is MISSING else result

    def run(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run the first overload that fits."""
        last = None
        for operator in self._operators.values():
            try:
                operator._schema.bind(args, kwargs)
            except RuntimeError as error:
                last = error
                continue
            return operator(*args, **kwargs) if Overriding.wants(operator) \
                else operator.run(args, kwargs)
        raise last or RuntimeError(f"{self._qualified_op_name} has no overload")

    def __str__(self) -> str:
        return self._qualified_op_name.replace("::", ".")

    __repr__ = __str__


class Namespace:
    """A namespace such as `torch.ops.mylib`, with operators as attributes."""

    def __init__(self, name: str) -> None:
        self.__name__ = f"torch.ops.{name}"
        self._packets: dict[str, Any] = {}

    def __getattr__(self, name: str) -> CustomPacket:
        packets = self.__dict__.get("_packets", {})
        if name in packets:
            return packets[name]
        namespace = self.__dict__.get("__name__", "").rpartition(".")[2]
        raise AttributeError(f"'_OpNamespace' '{namespace}' object has no attribute '{name}'")

    def __dir__(self) -> list[str]:
        return list(self._packets)


NAMESPACES: dict[str, Namespace] = {}


def get_namespace(name: str) -> Namespace:
    """The namespace of this name, made when first asked for."""
    if name not in NAMESPACES:
        NAMESPACES[name] = Namespace(name)
    return NAMESPACES[name]


def define(space: str, text: str) -> CustomOperator:
    """A new operator; RuntimeError where there is one of its name and overload, or for a type that
    there is not."""
    schema = Schema(space, text)
    check_types(text)
    operator = CustomOperator(space, schema)
    packets = get_namespace(space)._packets
    packet = packets.setdefault(operator._opname, CustomPacket(space, operator._opname))
    if operator._overloadname in packet._operators:
        raise RuntimeError(
            f"Tried to register an operator ({operator._schema}) with the same name and overload "
            "name multiple times."
        )
    packet.add(operator)
    return operator


def undefine(operator: CustomOperator) -> None:
    """Remove an operator, unless another definition took its place."""
    packets = get_namespace(operator.namespace)._packets
    packet = packets.get(operator._opname)
    if packet is None or packet._operators.get(operator._overloadname) is not operator:
        return
    del packet._operators[operator._overloadname]
    if not packet._operators:
        del packets[operator._opname]


def find(qualified: str) -> CustomOperator:
    """The operator `namespace::name`; RuntimeError if there is none."""
    space, _, name = qualified.partition("::")
    name, _, overload = name.partition(".")
    packet = get_namespace(space)._packets.get(name)
    if packet is None or (overload or "default") not in packet._operators:
        raise RuntimeError(f"operator {qualified} does not exist")
    return packet._operators[overload or "default"]
