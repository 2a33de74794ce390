"""torch.library: custom operators under torch.ops, with user-defined kernels and derivatives.

>>> @torch.library.custom_op("docs::twice", mutates_args=())
... def twice(x: torch.Tensor) -> torch.Tensor:
...     return torch.from_numpy(x.numpy() * 2)
>>> torch.library.register_autograd("docs::twice", lambda ctx, g: g * 2)
>>> x = torch.ones(2, requires_grad=True)
>>> torch.ops.docs.twice(x).sum().backward()
>>> x.grad
tensor([2., 2.])

Kernels are for the CPU; those for other devices are kept, and never called.
"""

from __future__ import annotations

import contextlib
import functools
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

from .amp.autocast_mode import _cast, autocast, is_autocast_available
from .native.foundation.user_frames import find_user_frame
from .ops.registration import custom_operators as custom
from .ops.registration import aten_kernels
from .ops.registration.custom_operators import CustomOperator
from .ops.registration.dispatch_keys import DispatchKey
from .ops.registration.entry_types import OpOverload as OpOverload
from .ops.registration.entry_types import OpOverloadPacket as OpOverloadPacket
from .ops.registration.fake_sizes import CONTEXTS
from .ops.registration.inferred_schema import infer
from .ops.registration.tags import list_tags
from .tensor.absent import make_absent_getattr
from .tensor.devices import device

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "impl",
    "impl_abstract", "infer_schema", "opcheck", "register_autocast", "register_autograd",
    "register_fake", "register_kernel", "register_torch_dispatch", "register_vmap",
    "triton_op", "wrap_triton",
]

_NAMES = ("get_kernel",)

__getattr__ = make_absent_getattr(__name__, _NAMES)

_KINDS = ("DEF", "IMPL", "FRAGMENT")
_DEVICES = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta", "xpu": "XPU", "mps": "MPS"}
_NAMELESS_SCHEMA = re.compile(r"\(.*\) -> .*")
_LASTING: dict[str, Library] = {}  # by namespace
_RESERVED = ("prim",)


def _qualified(qualname: str) -> tuple[str, str]:
    space, colons, name = qualname.partition("::")
    if not colons or "::" in name:
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {qualname}. The '
            "qualname passed to the torch.library APIs must consist of a namespace and a name, "
            "e.g. aten::sin"
        )
    return space, name


def _operator(op: Any) -> CustomOperator:
    """Return the operator for a name, a CustomOpDef, or an entry of torch.ops."""
    if isinstance(op, CustomOpDef):
        return op._opoverload
    if isinstance(op, custom.CustomPacket):
        return op.default
    if isinstance(op, str):
        return custom.find("::".join(_qualified(op)))
    return op


def fallthrough_kernel(*args: Any, **kwargs: Any) -> Any:
    """Placeholder kernel for a key that defers to the next one. Never called."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


class Library:
    """Definitions and kernels in a namespace: `Library("mylib", "DEF")`.

    They last as long as the object: keep a reference to it.
    `kind` is DEF, FRAGMENT (extends a namespace defined elsewhere) or IMPL (kernels only).
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in _KINDS:
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in _RESERVED and kind != "IMPL":
            raise ValueError(
                f"{ns} is a reserved namespace. Please try creating a library with another name.")
        if kind == "DEF" and ns == "aten":
            raise RuntimeError(
                f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please "
                "put all of your definitions in a single TORCH_LIBRARY block.  If you were trying "
                "to specify implementations, consider using TORCH_LIBRARY_IMPL (which can be "
                "duplicated).  If you really intended to define operators for a single namespace "
                "in a distributed way, you can use TORCH_LIBRARY_FRAGMENT to explicitly indicate "
                "this")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._undo: list[Callable[[], Any]] = []  # takes back what is defined and registered
        self._end = weakref.finalize(self, _take_all_back, self._undo)
        self._end.atexit = False

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator such as `foo(Tensor x) -> Tensor` and return its name."""
        operator = custom.define(self.ns, schema)
        operator.tags = list_tags(tags)
        self._undo.append(functools.partial(custom.undefine, operator))
        return operator._schema.opname

    def impl(
        self, op_name: Any, fn: Callable, dispatch_key: str = "", *, with_keyset: bool = False,
        allow_override: bool = True,
    ) -> None:
        """Register a kernel for a dispatch key ("CPU", "Meta", "Autograd", ...).

        In the namespace aten it replaces PyTorch's operator, until the library is gone:

        >>> lib = torch.library.Library("aten", "IMPL")
        >>> lib.impl("neg", lambda x: x.clone(), "CPU")
        >>> torch.neg(torch.ones(2))
        tensor([1., 1.])
        >>> lib._destroy()

        Raises RuntimeError for a key other than the library's, for an operator of another namespace
        and, without `allow_override`, if there is a kernel.
        """
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type "
                            f"{type(fn)}")
        name = op_name if isinstance(op_name, str) else _operator(op_name).name()
        space, _, short = name.rpartition("::")
        if space not in ("", self.ns):
            raise RuntimeError(
                f'impl("{name}", ...): Explicitly provided namespace ({space}) in operator name '
                f"does not match namespace of enclosing TORCH_LIBRARY block ({self.ns}).  Move "
                "this definition to the TORCH_LIBRARY block corresponding to this namespace (and "
                "consider deleting the namespace from your schema string.)")
        if dispatch_key and self.dispatch_key not in ("", dispatch_key):
            raise RuntimeError(
                f'impl("{name}", ...): Explicitly provided dispatch key ({dispatch_key}) is '
                "inconsistent with the dispatch key of the enclosing TORCH_LIBRARY_IMPL block "
                f"({self.dispatch_key}).  Please declare a separate TORCH_LIBRARY_IMPL block for "
                "this dispatch key and move your impl() there.")
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        if key not in DispatchKey.__members__:
            raise RuntimeError(f"could not parse dispatch key: {key}")
        kernels = self._kernels_of(op_name, short)
        before = kernels.get(key)
        if before is not None and not allow_override:
            raise RuntimeError(
                "This is not allowed since there's already a kernel registered from python "
                f"overriding {short}'s behavior for {key} dispatch key and {self.ns} namespace.")
        kernels[key] = fn
        self._undo.append(functools.partial(_take_back, kernels, key, fn, before))

    def _kernels_of(self, op_name: Any, short: str) -> dict[str, Callable]:
        """Return the table of an operator's kernels."""
        if self.ns == "aten":
            self._undo.append(aten_kernels.retire)  # after the kernel is taken back
            return aten_kernels.register(f"aten::{short}")
        if not isinstance(op_name, str):
            return _operator(op_name).kernels
        return _operator(f"{self.ns}::{short}").kernels

    def _destroy(self) -> None:
        _take_all_back(self._undo)


def _take_all_back(undo: list[Callable[[], Any]]) -> None:
    while undo:
        undo.pop()()


def _take_back(
    kernels: dict[str, Callable], key: str, fn: Callable, before: Callable | None
) -> None:
    """Replace a kernel by the one before it, unless another was registered since."""
    if kernels.get(key) is not fn:
        return
    if before is None:
        del kernels[key]
    else:
        kernels[key] = before


@contextlib.contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """Yield a Library whose definitions are removed after the block."""
    lib = Library(*args, **kwargs)
    try:
        yield lib
    finally:
        lib._destroy()


class CustomOpDef:
    """An operator defined by `custom_op`; its methods register kernels and rules."""

    def __init__(self, qualname: str, fn: Callable, operator: CustomOperator) -> None:
        self._qualname, self._init_fn, self._opoverload = qualname, fn, operator
        self._namespace, self._name = _qualified(qualname)
        self.__name__, self.__doc__ = self._name, fn.__doc__

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    def register_fake(self, fn: Callable, /) -> Callable:
        """Register a fake kernel: returns tensors of the result's shape and dtype."""
        return register_fake(self, fn)

    def register_kernel(self, device_types: Any, fn: Callable | None = None, /) -> Callable:
        """Register a kernel for device types."""
        return register_kernel(self, device_types, fn)

    def register_autograd(
        self, backward: Callable, /, *, setup_context: Callable | None = None
    ) -> None:
        """Register the derivative `backward(ctx, *grads)` and the function that saves for it."""
        register_autograd(self, backward, setup_context=setup_context)

    def register_vmap(self, func: Callable | None = None, /) -> Any:
        """Register the vmap rule, which computes all examples at once."""
        return register_vmap(self, func)

    def register_torch_dispatch(self, torch_dispatch_class: Any, fn: Callable | None = None,
                                /) -> Any:
        """Register what runs in place of a class's or mode's `__torch_dispatch__`."""
        return register_torch_dispatch(self, torch_dispatch_class, fn)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Register the dtype to cast floating inputs to under autocast."""
        register_autocast(self, device_type, cast_inputs)


def infer_schema(
    prototype_function: Callable, /, *, mutates_args: Any, op_name: str | None = None
) -> str:
    """Return the schema described by a function's annotations.

    >>> def scaled(x: torch.Tensor, k: float = 2.0) -> torch.Tensor: ...
    >>> torch.library.infer_schema(scaled, mutates_args=())
    '(Tensor x, float k=2.0) -> Tensor'
    """
    return infer(prototype_function, mutates_args, op_name or "")


def custom_op(
    name: str, fn: Callable | None = None, /, *, mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None, schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make a function an operator. Without `fn`, return a decorator.

    Autograd records nothing inside the function. `mutates_args` names the arguments it writes to.
    `schema` defaults to the one inferred from annotations.
    """

    def decorate(fn: Callable) -> CustomOpDef:
        space, short = _qualified(name)
        text = schema if schema is not None else infer(fn, mutates_args)
        custom.get_namespace(space)._packets.pop(short, None)  # redefinition replaces
        operator = custom.define(space, short + text)
        operator.opaque, operator.tags = True, list_tags(tags)
        _check_schema(operator, schema, mutates_args)
        result = CustomOpDef(name, fn, operator)
        register_kernel(result, device_types, fn)
        return result

    return decorate if fn is None else decorate(fn)


def triton_op(
    name: str, fn: Callable | None = None, /, *, mutates_args: str | Iterable[str],
    schema: str | None = None,
) -> Any:
    """Make a function an operator, as `custom_op` does; it is its own fake kernel, as it calls
    only operators and kernels of Triton. Those need a GPU. Without `fn`, return a decorator.

    >>> @torch.library.triton_op("docs::plus_one", mutates_args={})
    ... def plus_one(x: torch.Tensor) -> torch.Tensor:
    ...     return x + 1
    >>> plus_one(torch.zeros(2)), plus_one(torch.zeros(2, device="meta")).shape
    (tensor([1., 1.]), torch.Size([2]))
    """

    def decorate(fn: Callable) -> CustomOpDef:
        result: CustomOpDef = custom_op(name, fn, mutates_args=mutates_args, schema=schema)
        result.register_fake(fn)
        return result

    return decorate if fn is None else decorate(fn)


def wrap_triton(triton_kernel: Callable, /) -> NoReturn:
    """Raise NotImplementedError for a kernel of Triton, which needs a GPU, and RuntimeError for
    anything else."""
    if not type(triton_kernel).__module__.startswith("triton."):
        raise RuntimeError(
            "wrap_triton only works on functions annotated with triton.jit or triton.autotune")
    raise NotImplementedError("torch.library.wrap_triton is not implemented in flambeau, which "
                              "runs on the CPU alone")


def _check_schema(operator: CustomOperator, schema: str | None, mutates_args: Any) -> None:
    """Raise what PyTorch refuses in the schema of a `custom_op`."""
    arguments = operator._schema.arguments
    if any(a.kwarg_only and "Tensor" in a.kind for a in arguments):
        custom.undefine(operator)
        raise NotImplementedError(
            "custom_op with kwarg-only Tensor args. Please make your tensors not kwarg-only. Got: "
            f"{operator._schema}")
    written = {a.name for a in arguments if a.is_written}
    if schema is not None and written != set(mutates_args):
        custom.undefine(operator)
        raise ValueError(
            f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema="
            f"{schema}. The schema suggests that the op mutates {written}which is different from "
            "what was provided to us in `mutates_args`. Please make these consistent.")


def define(
    qualname: Any, schema: Any = None, alias_analysis: str = "", *, lib: Any = None, tags: Any = ()
) -> Any:
    """Define the operator `namespace::name` with a schema like `(Tensor x) -> Tensor`.

    With `lib`, the operator belongs to that Library and its namespace. The older form
    `define(lib, "name(Tensor x) -> Tensor")` returns a decorator for the kernel.
    """
    if isinstance(qualname, Library):
        name = qualname.define(schema, alias_analysis)
        return functools.partial(_implement, qualname, name, "")
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): expected qualname to be instance of str, got "
                         f"{type(qualname)}")
    space, name = _qualified(qualname)
    if not _NAMELESS_SCHEMA.fullmatch(schema):
        raise ValueError('define(qualname, schema, ...): expected schema to look like e.g. '
                         f'"(Tensor x) -> Tensor" but got "{schema}"')
    (lib or _lasting(space)).define(name + schema, alias_analysis, tags=tags)


def _lasting(space: str) -> Library:
    """Return a Library for what is defined or registered without one, which is never taken back."""
    return _LASTING.setdefault(space, Library(space, "FRAGMENT"))


def _implement(lib: Library, name: str, key: str, function: Callable) -> Callable:
    lib.impl(name, function, key)
    return function


def impl(
    qualname: Any, types: str | Sequence[str] = "", func: Callable | None = None, *,
    lib: Any = None,
) -> Any:
    """Register a kernel for device types ("default": all). Without `func`, return a decorator.

    `impl(lib, name, dispatch_key)` is the older form.
    """
    if isinstance(qualname, Library):
        older: Any = (types, func or "")
        return functools.partial(_implement, qualname, *older)
    return register_kernel(qualname, None if types == "default" else types, func, lib=lib)


def register_kernel(
    op: Any, device_types: str | Sequence[str] | None, func: Callable | None = None, /, *,
    lib: Any = None,
) -> Any:
    """Register a kernel for device types (None: all). Without `func`, return a decorator."""
    kinds = [device_types] if isinstance(device_types, str) else device_types
    keys = ["CompositeExplicitAutograd"] if kinds is None else [_key(kind) for kind in kinds]
    operator = _operator(op)

    def register(function: Callable) -> Callable:
        for key in dict.fromkeys(keys):
            (lib or _lasting(operator.namespace)).impl(operator, function, key)
        return function

    return register if func is None else register(func)


def _key(kind: str) -> str:
    """Return the dispatch key of a device type, or `kind` if it is one. RuntimeError if neither."""
    if kind == "default":
        return "CompositeExplicitAutograd"
    if kind[:1].islower():
        return _DEVICES.get(kind) or device(kind).type.upper()
    return kind


def register_fake(
    op: Any, func: Callable | None = None, /, *, lib: Any = None, _stacklevel: int = 1,
    allow_override: bool = False,
) -> Any:
    """Register a fake kernel, which returns tensors of the result's shape and dtype.

    It runs on meta tensors. Without `func`, return a decorator.
    """
    operator = _operator(op)

    def register(function: Callable) -> Callable:
        if not operator.opaque:  # custom_op's are replaced
            if not allow_override:
                _refuse_second_fake(operator)
            if lib is not None:
                lib._undo.append(functools.partial(_take_back_fake, operator, operator.fake,
                                                   operator.fake_source))
        operator.fake, operator.fake_source = function, _locate_caller()
        return function

    return register if func is None else register(func)


def _locate_caller() -> str:
    """Return the file and line of the user's code that is running."""
    frame = find_user_frame()
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _refuse_second_fake(operator: CustomOperator) -> None:
    """Raise RuntimeError if an operator has a fake kernel, or needs none."""
    prefix = f"register_fake(...): the operator {operator.name()} already has "
    if operator.fake is not None:
        raise RuntimeError(f"{prefix}a fake impl registered at {operator.fake_source}.")
    if "Meta" in operator.kernels:
        raise RuntimeError(
            f"{prefix}a DispatchKey::Meta implementation via a pre-existing torch.library or "
            "TORCH_LIBRARY registration. Please either remove that registration or don't call "
            "register_fake.")
    composite = "CompositeImplicitAutograd"
    if composite in operator.kernels:
        raise RuntimeError(
            f"{prefix}an implementation for this device type via a pre-existing registration to "
            f"DispatchKey::{composite}.{composite} operators do not need a fake impl; instead, "
            "the operator will decompose into its constituents and those can have fake impls "
            "defined on them.")


def _take_back_fake(operator: CustomOperator, before: Callable | None, source: str) -> None:
    operator.fake, operator.fake_source = before, source


def get_ctx() -> Any:
    """Return what a fake kernel asks for sizes that depend on values, in `opcheck` alone.

    Elsewhere RuntimeError: fake kernels run on meta tensors, whose sizes are plain numbers.
    """
    if CONTEXTS:
        return CONTEXTS[-1]
    raise RuntimeError(
        "You're trying to run this operator with meta Tensors (as opposed to FakeTensors), but "
        "this operator may return an output Tensor with data-dependent shape. Meta Tensors don't "
        "support operators with outputs that have data-dependent shapes but FakeTensors do. If "
        "your operator does not return an output with data-dependent shape, make sure the "
        "FakeTensor and/or meta kernel does not call torch.library.get_ctx(). Otherwise, please "
        "use FakeTensors."
    )


def impl_abstract(
    qualname: Any, func: Callable | None = None, *, lib: Any = None, _stacklevel: int = 1
) -> Any:
    """Alias of `register_fake` from older releases."""
    return register_fake(qualname, func, lib=lib)


def register_autograd(
    op: Any, backward: Callable, /, *, setup_context: Callable | None = None, lib: Any = None
) -> None:
    """Register a derivative: `backward(ctx, *grads)` returns one gradient per argument.

    `setup_context(ctx, inputs, output)` runs after the kernel and saves values for backward.
    """
    operator = _operator(op)
    schema = operator._schema
    if schema.is_mutable or not schema.returns or any(r.alias_info for r in schema.returns):
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {operator} with schema "
            f"{schema}. Please create a functional operator and register an autograd formula for "
            "that.")
    if any(a.kwarg_only and "Tensor" in a.kind for a in schema.arguments):
        raise NotImplementedError(
            "register_autograd with kwarg-only Tensor args. In the original definition of the op, "
            f"please make your tensors not kwarg-only. Got: {schema}")
    operator.backward, operator.setup_context = backward, setup_context


def register_autocast(
    op: Any, device_type: str, cast_inputs: Any, /, *, lib: Any = None
) -> None:
    """Register the dtype to cast an operator's floating inputs to under autocast.

    Registrations for devices other than the CPU have no effect.
    Raises ValueError for a device without autocast.

    >>> @torch.library.custom_op("docs::doubled", mutates_args=())
    ... def doubled(x: torch.Tensor) -> torch.Tensor:
    ...     return x * 2
    >>> torch.library.register_autocast("docs::doubled", "cpu", torch.bfloat16)
    >>> with torch.autocast("cpu"):
    ...     doubled(torch.ones(1)).dtype
    torch.bfloat16
    """
    if not is_autocast_available(device_type):
        raise ValueError(f"Device type '{device_type}' does not support autocast.")
    operator = _operator(op)

    def run(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=False):
            return operator(*_cast(args, device_type, cast_inputs), **kwargs)

    operator.kernels["Autocast" + _DEVICES.get(device_type, device_type)] = run


def register_vmap(op: Any, func: Callable | None = None, /, *, lib: Any = None) -> Any:
    """Register a vmap rule, which computes all examples at once.

    Without `func`, return a decorator.
    `func(info, in_dims, *args)` returns (output, out_dims). `in_dims` holds the batch axis of each
    argument or None; `info` has `batch_size` and `randomness`.

    >>> @torch.library.custom_op("docs::tripled", mutates_args=())
    ... def tripled(x: torch.Tensor) -> torch.Tensor:
    ...     return torch.from_numpy(x.numpy() * 3)
    >>> torch.library.register_vmap(tripled, lambda info, in_dims, x: (tripled(x), in_dims[0]))
    >>> torch.vmap(tripled)(torch.ones(2))
    tensor([3., 3.])
    """
    operator = _operator(op)
    if any(a.kwarg_only and "Tensor" in a.kind for a in operator._schema.arguments):
        raise NotImplementedError(
            "register_vmap with kwarg-only Tensor args. In the original definition of the op, "
            f"please make your tensors not kwarg-only. Got: {operator._schema}")

    def register(rule: Callable) -> None:
        operator.vmap = rule

    return register if func is None else register(func)


def register_torch_dispatch(
    op: Any, torch_dispatch_class: Any, func: Callable | None = None, /, *, lib: Any = None
) -> Any:
    """Register what runs for an operator in place of a class's or mode's `__torch_dispatch__`.

    Without `func`, return a decorator. `func(mode, op, types, args, kwargs)` receives the mode, or
    the class of a tensor, first.

    >>> @torch.library.custom_op("docs::quadrupled", mutates_args=())
    ... def quadrupled(x: torch.Tensor) -> torch.Tensor:
    ...     return x * 4
    >>> class Mode(torch.utils._python_dispatch.TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         return func(*args, **(kwargs or {}))
    >>> @torch.library.register_torch_dispatch("docs::quadrupled", Mode)
    ... def _(mode, func, types, args, kwargs):
    ...     return func(*args) + 1
    >>> with Mode():
    ...     quadrupled(torch.ones(2))
    tensor([5., 5.])
    """
    operator = _operator(op)

    def register(rule: Callable) -> Callable:
        operator.dispatch_rules[torch_dispatch_class] = rule
        return rule

    return register if func is None else register(func)


def opcheck(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
            **settings: Any) -> dict[str, Any]:
    """Check a custom operator on sample arguments: `flambeau.testing.operator_checks.opcheck`.

    >>> @torch.library.custom_op("docs::halved", mutates_args=())
    ... def halved(x: torch.Tensor) -> torch.Tensor:
    ...     return x / 2
    >>> torch.library.opcheck(halved, (torch.ones(2),), test_utils="test_schema")
    {'test_schema': 'SUCCESS'}
    """
    from .testing import operator_checks

    return operator_checks.opcheck(op, args, kwargs, **settings)
