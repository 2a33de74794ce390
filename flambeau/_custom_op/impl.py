"""torch._custom_op.impl: CustomOp, an operator whose kernels its methods register."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn

from .. import ops
from .._library.utils import is_functional_schema
from ..library import Library, _locate_caller, get_ctx, infer_schema
from ..native.foundation.user_frames import warn
from ..ops.registration.custom_operators import CustomOperator
from ..ops.registration.schema import Schema
from ..ops.registration.tags import Tag
from .autograd import create_kernel
from .manual_schemas import check_signature

__all__ = ["CustomOp", "custom_op", "get_ctx"]

SUPPORTED_DEVICE_TYPE_TO_KEY = {"cpu": "CPU", "cuda": "CUDA"}
RESERVED_NS = {"prim", "prims", "aten", "at", "torch", "pytorch"}
_COMPOSITE = "CompositeImplicitAutograd"
_ELSEWHERE = "pre-existing torch.library or TORCH_LIBRARY registration."

global_registry: dict[str, CustomOp] = {}  # by `namespace::name`


class Implementation(NamedTuple):
    """A function that was registered, and the file and line where."""

    func: Callable
    location: str


def custom_op(qualname: str, manual_schema: str | None = None) -> Callable[..., CustomOp]:
    """Return a decorator that makes a function's annotations, or `manual_schema`, a CustomOp.

    Deprecated: torch.library.custom_op took its place.
    """
    warn("torch._custom_op is deprecated and will be removed in PyTorch 2.6, please use the "
         "equivalent torch.library API instead.", DeprecationWarning)

    def decorate(func: Callable) -> CustomOp:
        space = _check_name(qualname, func)
        schema = infer_schema(func, mutates_args=()) if manual_schema is None else manual_schema
        result = _define(qualname, space, schema, ())
        if manual_schema is not None:
            try:
                check_signature(result._schema, func)
            except ValueError:
                result._destroy()
                raise
        result.__name__, result.__module__ = func.__name__, func.__module__
        result.__doc__ = func.__doc__
        return result

    return decorate


class CustomOp:
    """An operator whose kernels and derivative its methods register. Deprecated."""

    def __init__(
        self, lib: Any, cpp_ns: Any, schema: Any, operator_name: Any, ophandle: Any, *,
        _private_access: bool = False,
    ) -> None:
        if not _private_access:
            raise RuntimeError(
                "The CustomOp constructor is private and we do not guarantee BC for it. Please use "
                "custom_op(...) to create a CustomOp object")
        self._lib: Library = lib
        self._cpp_ns, self._schema, self._opname = cpp_ns, schema, operator_name
        self._operator: CustomOperator = ophandle
        self._qualname = f"{cpp_ns}::{operator_name}"
        self.__name__: str = operator_name
        self._impls: dict[str, Implementation] = {}
        self._output_differentiability: list[bool] | None = None
        self._records = False  # whether its kernel for Autograd is this object's
        global_registry[self._qualname] = self

    def __repr__(self) -> str:
        return f'<CustomOp(op="{self._qualname}")>'

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._operator(*args, **kwargs)

    def _destroy(self) -> None:
        self._lib._destroy()
        global_registry.pop(self._qualname, None)

    def _has_impl(self, kind: str) -> bool:
        return kind in self._impls

    def _get_impl(self, kind: str) -> Implementation:
        return self._impls[kind]

    def _register_impl(self, kind: str, func: Callable) -> None:
        if kind in self._impls:
            raise RuntimeError(
                f"Attempting to register a {kind} impl for operator {self._qualname} that already "
                f"has a {kind} impl registered from Python at {self._impls[kind].location}. This "
                "is not supported.")
        self._impls[kind] = Implementation(func, _locate_caller())

    def _register_autograd(self) -> None:
        self._lib.impl(self._opname, create_kernel(self), "Autograd")
        self._records = True

    def impl(self, device_types: str | Iterable[str]) -> Callable[[Callable], Callable]:
        """Return a decorator of the kernel for device types, "cpu" and "cuda"."""
        kinds = [device_types] if isinstance(device_types, str) else list(device_types)
        for kind in kinds:
            if kind not in SUPPORTED_DEVICE_TYPE_TO_KEY:
                raise ValueError(
                    f"CustomOp.impl(device_types=[{kind}, ...]): we only support device_type in "
                    f"{SUPPORTED_DEVICE_TYPE_TO_KEY.keys()}.")

        def register(function: Callable) -> Callable:
            for kind in dict.fromkeys(kinds):
                key = SUPPORTED_DEVICE_TYPE_TO_KEY[kind]
                present = (key, "CompositeExplicitAutograd", _COMPOSITE)
                if kind not in self._impls and any(k in self._operator.kernels for k in present):
                    raise RuntimeError(
                        f"impl(..., device_types={kind}): the operator {self._qualname} already "
                        f"has an implementation for this device type via a {_ELSEWHERE}")
                self._register_impl(kind, function)
                self._lib.impl(self._opname, function, key)
            return function

        return register

    def impl_factory(self) -> Callable[[Callable], Callable]:
        """Return a decorator of the kernel for calls without tensors."""
        def register(function: Callable) -> Callable:
            self._register_impl("factory", function)
            self._lib.impl(self._opname, function, "BackendSelect")
            return function

        return register

    def impl_abstract(self) -> Callable[[Callable], Callable]:
        """Return a decorator of the kernel for tensors without values."""
        def register(function: Callable) -> Callable:
            if not self._has_impl("abstract"):
                self._check_no_meta_kernel()
            self._register_impl("abstract", function)
            self._lib.impl(self._opname, function, "Meta")
            return function

        return register

    def _check_no_meta_kernel(self) -> None:
        kernels = self._operator.kernels
        prefix = f"impl_abstract(...): the operator {self._qualname} already has "
        if _COMPOSITE in kernels:
            raise RuntimeError(
                f"{prefix}an implementation for this device type via a pre-existing registration "
                f"to DispatchKey::{_COMPOSITE}.{_COMPOSITE} operators do not need an abstract "
                "impl; instead, the operator will decompose into its constituents and those can "
                "have abstract impls defined on them.")
        if "Meta" in kernels:
            raise RuntimeError(f"{prefix}a DispatchKey::Meta implementation via a {_ELSEWHERE} "
                               "Please either remove that registration or don't call "
                               "impl_abstract.")

    def impl_save_for_backward(self) -> Callable[[Callable], None]:
        """Return a decorator of the function that saves for backward."""
        def register(function: Callable) -> None:
            self._prepare_backward()
            self._register_impl("save_for_backward", function)

        return register

    def impl_backward(
        self, output_differentiability: list[bool] | None = None
    ) -> Callable[[Callable], None]:
        """Return a decorator of the function that returns the gradients, by argument."""
        flags = output_differentiability
        if flags is not None and not (
            isinstance(flags, list) and all(isinstance(flag, bool) for flag in flags)
            and len(flags) == len(self._schema.returns)
        ):
            raise RuntimeError(
                "impl_backward(output_differentiability): expected output_differentiability to be "
                "a list of bools with length equal to the number of outputs of this CustomOp got: "
                f"{flags}")

        def register(function: Callable) -> None:
            self._prepare_backward()
            self._register_impl("backward", function)
            self._output_differentiability = flags

        return register

    def _prepare_backward(self) -> None:
        """Register the kernel for Autograd. RuntimeError where the operator can have none."""
        reason = _explain_no_backward(self._schema)
        if reason:
            raise RuntimeError(
                "Cannot use torch._custom_ops APIs to register backward formula for "
                f"{reason}. Got operator {self._qualname} with schema: {self._schema}")
        if self._records:
            return
        prefix = (f"impl_backward/impl_save_for_backward: the operator {self._qualname} already "
                  "has an ")
        if _COMPOSITE in self._operator.kernels:
            raise RuntimeError(
                f"{prefix}implementation for this device type via a pre-existing registration to "
                f"DispatchKey::{_COMPOSITE}.{_COMPOSITE} operators do not need an autograd "
                "formula; instead, the operator will decompose into its constituents and those can "
                "have autograd formulas defined on them.")
        for key in ("Autograd", "AutogradCPU", "AutogradCUDA"):
            if key in self._operator.kernels:
                raise RuntimeError(
                    f"{prefix}Autograd kernel registered to DispatchKey::{key} vi a pre-existing "
                    "torch.library or TORCH_LIBRARY registration. Please either remove those "
                    "registrations or don't use the torch._custom_ops APIs")
        self._register_autograd()

    def _report_missing(self, key: str) -> NoReturn:
        """Raise NotImplementedError for a call that has no kernel."""
        if key == "Undefined":
            raise NotImplementedError(
                f"{self}: There were no Tensor inputs to this operator (e.g. you passed an empty "
                "list of Tensors). If your operator is a factory function (that is, it takes no "
                "Tensors and constructs a new one), then please use CustomOp.impl_factory to "
                "register an implementation for it")
        device = key.lower()
        raise NotImplementedError(
            f"{self}: when running with device='{device}' tensors: there is no {device} impl "
            f"registered for this CustomOp. Please register one via CustomOp.impl(device_type="
            f"'{device}')")


def _explain_no_backward(schema: Schema) -> str:
    """Return why a schema can have no backward function; "" if it can."""
    if schema.is_mutable:
        return "non-functional operator"
    if not schema.returns:
        return "operator with no returns"
    if any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns):
        return "operator that returns views"
    allowed = {"int": "int", "SymInt": "SymInt", "bool": "bool", "float": "float",
               "Tensor": "Tensor", "Tensor[]": "List[Tensor]"}
    for r in schema.returns:
        if r.kind not in allowed:
            return f"operator with return not in {list(allowed.values())} (got {r.kind})"
    return ""


# ------------------------------------------------------------------------------- definitions


def _check_name(qualname: str, func: Any) -> str:
    """Return the namespace of an operator that a function defines. ValueError for other names."""
    if not inspect.isfunction(func):
        raise ValueError("custom_op(...)(func): Expected `func` to be a Python function, got: "
                         f"{type(func)}")
    space, name = parse_qualname(qualname)
    validate_namespace(space)
    if func.__name__ != name:
        raise ValueError(
            f"custom_op(qualname='{qualname}', ...)(func): expected `func` to have name '{name}' "
            f"but got '{func.__name__}'. Please either change the name of `func` or the qualname "
            "that is passed to `custom_op`")
    return space


def parse_qualname(qualname: str) -> tuple[str, str]:
    """Split `namespace::name`; ValueError for other forms."""
    space, colons, name = qualname.partition("::")
    if not colons:
        raise ValueError(f"Expected there to be a namespace in {qualname}, i.e. The operator name "
                         "should look something like ns::foo")
    if "." in name:
        raise ValueError(
            "The torch.custom_ops APIs do not handle overloads, i.e. operator names with '.' in "
            f"them. Please name your operator something like ns::foo. Got: {qualname}")
    return space, name


def validate_namespace(ns: str) -> None:
    """Raise ValueError for a namespace with a dot, or one of PyTorch's own."""
    if "." in ns:
        raise ValueError(f'custom_op(..., ns="{ns}"): expected ns to not contain any . (and be a '
                         "valid variable name)")
    if ns in RESERVED_NS:
        raise ValueError(f"custom_op(..., ns='{ns}'): '{ns}' is a reserved namespace, please "
                         "choose something else. ")


def _define(qualname: str, space: str, schema: str, tags: Any) -> CustomOp:
    """Define an operator in a library of its own."""
    name = qualname.partition("::")[2]
    text = name + schema
    if not re.fullmatch(r"[^(]+\(.*\) -> .*", text):
        raise AssertionError(f"Invalid function schema: {text}")
    parsed = Schema(space, text)
    if not is_functional_schema(parsed):
        raise ValueError(
            "custom_op only supports functional operators (ops that do not mutate any inputs, do "
            "not return views of the inputs, and has at least one return). Got the following "
            f"non-functional schema: {text}")
    if any(a.name == "self" for a in parsed.arguments):
        raise ValueError("custom_op does not support arguments named 'self'. Please rename your "
                         f"argument. Got: {text}")
    lib = Library(space, "FRAGMENT")
    lib.define(text, tags=tags)
    result = CustomOp(lib, space, parsed, name, get_op(qualname), _private_access=True)
    result._register_autograd()
    result._operator.report_missing = result._report_missing
    return result


def _custom_op_with_schema(
    qualname: str, schema: str, needs_fixed_stride_order: bool = True
) -> Any:
    """Define an operator and return it as torch.ops does."""
    space, _ = parse_qualname(qualname)
    tags = [Tag.needs_fixed_stride_order] if needs_fixed_stride_order else []
    return _define(qualname, space, schema, tags)._operator


def get_op(qualname: str) -> Any:
    """Return the operator `namespace::name` as torch.ops does; ValueError if there is none."""
    space, name = parse_qualname(qualname)
    try:
        return getattr(getattr(ops, space), name).default
    except AttributeError:
        raise ValueError(
            f"Could not find the operator {qualname}. Please make sure you have already registered "
            "the operator and (if registered from C++) loaded it via torch.ops.load_library."
        ) from None


def _find_custom_op(qualname: str, also_check_torch_library: bool = False) -> CustomOp:
    """Return the CustomOp of a name: of torch.library's operators, too, if asked."""
    if qualname in global_registry:
        return global_registry[qualname]
    if not also_check_torch_library:
        raise RuntimeError(f'Could not find custom op "{qualname}". Did you register it via the '
                           "torch._custom_ops API?")
    operator = get_op(qualname)
    return CustomOp(Library(operator.namespace, "FRAGMENT"), operator.namespace, operator._schema,
                    operator._opname, operator, _private_access=True)
