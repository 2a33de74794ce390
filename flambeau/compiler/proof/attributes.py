"""Attribute lookup: find `x.name` as Python does, and guard that it stays the same object."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import Any

from ...nn.module import Module
from ...tensor.tensor import Tensor
from .declarations import OF_LAYOUT, is_in_library
from .facts import Facts
from .guards import Test
from .provenance import (
    UNKNOWN, Aspect, Kind, NotProvedError, Provenance, is_plain, make_attribute_key,
)
from .purity import (
    PURE_TYPES, computes_members, find_on_class, has_default_getattribute, is_own_class,
    runs_own_code,
)
from .shadow_frame import CallState, Callee, Operands, Runs, ShadowFrame, TensorAttribute
from .state.object_state import declare_object

_MISSING = object()
_MEMBERS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_C_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType)
_FIELD: Any = type(vars(collections.namedtuple("_Pair", "first second"))["first"])


def load_attribute(facts: Facts, s: ShadowFrame, p: Provenance, name: str) -> Provenance:
    """Return the provenance of `p.name`. Sets `s.call`, since the lookup may run Python code."""
    s.call = CallState(runs=Runs.ANY_CODE, operands=Operands(p.kind is Kind.TENSOR))
    if p.kind is Kind.NUMBER:
        return Provenance(Kind.METHOD, UNKNOWN, name, items=[p], tainted=True)
    if p.kind is Kind.TENSOR:
        return _read_from_tensor(facts, s.call, p, name)
    if p.value is UNKNOWN:
        return _read_from_unseen(facts, p, name)
    if p.kind is Kind.OPAQUE:
        raise NotProvedError(
            f"it reads .{name} of a {type(p.value).__name__} that comes from code that is not "
            "watched"
        )
    x = p.value
    if isinstance(x, types.ModuleType):
        return _read_from_namespace(facts, p, name)
    if isinstance(x, type):
        return _read_from_class(facts, x, name)
    if isinstance(x, super):
        return load_super_attribute(facts, s, x, name)
    return _read_from_object(facts, s.call, p, name)


def _read_from_unseen(facts: Facts, p: Provenance, name: str) -> Provenance:
    """Read from a new object of a known class: a method, or the field of a namedtuple."""
    kind = p.type
    if kind is None:
        raise NotProvedError(f"it reads .{name} of an object of unknown origin")
    if not is_own_class(kind):
        return Provenance(Kind.METHOD, getattr(kind, name, UNKNOWN), name, items=[p])
    facts.guard_lookup(kind, name)
    raw = find_on_class(kind, name)
    if isinstance(raw, (types.FunctionType, *_C_METHODS)):
        return Provenance(Kind.METHOD, raw, name, items=[p])
    fields = getattr(kind, "_fields", ())
    if p.items and name in fields and isinstance(raw, _FIELD):
        return p.items[fields.index(name)]
    raise NotProvedError(f"it reads .{name} of a new {kind.__name__} without naming it first")


def _read_from_tensor(facts: Facts, call: CallState, p: Provenance, name: str) -> Provenance:
    x = p.value
    if x is not UNKNOWN and not hasattr(type(x), name):
        if name in getattr(x, "__dict__", ()):
            raise NotProvedError(f"it reads .{name}, an attribute added to a tensor")
        facts.guard_lookup(type(x), name)
        key = (id(x), Aspect.ABSENT, name)
        if p.path and key not in facts.reads:
            facts.reads[key] = p
            facts.guard(f"{p.path}.__dict__", Test.ABSENT, name)
        return Provenance(Kind.PLAIN)  # raises AttributeError
    attribute = getattr(Tensor if x is UNKNOWN else type(x), name, None)
    if isinstance(attribute, types.MemberDescriptorType):
        return _read_from_slot(facts, p, name)
    facts.guard_class(Tensor, name)
    if not isinstance(attribute, property):
        return Provenance(Kind.METHOD, attribute, name, items=[p])
    if name in ("grad", "grad_fn", "data", "_base"):
        call.slot = Provenance(Kind.TENSOR)
    else:
        call.slot = Provenance(Kind.PLAIN if name in OF_LAYOUT else Kind.TENSOR)
    call.attribute = TensorAttribute(name, p.path and f"{p.path}.{name}")
    return call.slot


def _read_from_slot(facts: Facts, p: Provenance, name: str) -> Provenance:
    """Return the provenance of a tensor's private attribute, which trainers read."""
    if p.value is UNKNOWN:
        raise NotProvedError(f"it reads .{name} of a tensor of unknown origin")
    value = getattr(p.value, name, None)
    if p.path and is_plain(value):
        return facts.read((id(p.value), name), f"{p.path}.{name}", value)
    if name == "_base":
        raise NotProvedError("it reads _base of a tensor, which no guard covers")
    return Provenance(Kind.PLAIN, value) if is_plain(value) else facts.fresh(value)


def _read_from_namespace(facts: Facts, p: Provenance, name: str) -> Provenance:
    space, kind = p.value.__dict__, type(p.value)
    if is_own_class(kind):
        raise NotProvedError(f"{kind.__name__} customizes what a module's attributes are")
    is_library = p.value.__name__.partition(".")[0] in ("flambeau", "torch")
    if not is_library:
        facts.guard_type(p)
    if name not in space and is_library:
        value = getattr(p.value, name)  # loads a lazy submodule
        if name not in space:
            path = f"{facts.path_of(p)}.{name}"
            return facts.read((id(space), name), path, value)
    if name not in space:
        raise NotProvedError(f"it reads {p.value.__name__}.{name}, which is not loaded yet")
    return facts.read((id(space), name), f"{facts.path_of(p)}.{name}", space[name])


def _read_from_class(facts: Facts, kind: type, name: str) -> Provenance:
    owner = next((c for c in kind.__mro__ if name in c.__dict__), None)
    if owner is None:
        raise NotProvedError(f"it reads {kind.__name__}.{name} of a metaclass")
    raw = owner.__dict__[name]
    if runs_own_code(raw) or computes_members(kind, name):
        raise NotProvedError(f"{kind.__name__}.{name} is computed by code of its own")
    value = getattr(kind, name)
    if is_own_class(type(kind)):
        facts.guard_lookup(type(kind), name, "__getattribute__")
    is_function = isinstance(raw, (classmethod, staticmethod, types.FunctionType))
    if not is_function and owner.__module__ != "builtins":
        return facts.read((id(kind), name), f"{facts.constant(kind)}.{name}", value)
    facts.guard_class(kind, name)
    receiver = [Provenance(Kind.OUTSIDE, kind, facts.constant(kind))]
    bound = receiver if isinstance(raw, classmethod) else []
    return Provenance(Kind.METHOD, getattr(value, "__func__", value), name, items=bound)


def load_super_attribute(facts: Facts, s: ShadowFrame, x: Any, name: str) -> Provenance:
    """Return the provenance of `super().name`."""
    kind = x.__self_class__
    bases = kind.__mro__[kind.__mro__.index(x.__thisclass__) + 1 :]
    at = next((i for i, base in enumerate(bases) if name in base.__dict__), None)
    if at is None:
        raise NotProvedError(f"no base of {x.__thisclass__.__name__} has {name}")
    facts.guard_bases(kind, bases[:at], name)
    owner, raw = bases[at], bases[at].__dict__[name]
    facts.guard_class(owner, name)
    receiver = facts.identify(x.__self__)
    if isinstance(raw, property):
        s.call = CallState(runs=Runs.ANY_CODE)
        return _run_getter(facts, s.call, receiver, raw.fget)
    if runs_own_code(raw):
        raise NotProvedError(f"{owner.__name__}.{name} is computed by code of its own")
    if isinstance(raw, (types.FunctionType, *_C_METHODS)):
        return Provenance(Kind.METHOD, raw, name, items=[receiver])
    if isinstance(raw, (classmethod, staticmethod)):
        return _bind_to_class(facts, kind, name, raw)
    if hasattr(type(raw), "__get__"):
        value = getattr(x, name)
        return Provenance(Kind.METHOD, getattr(value, "__func__", value), name, items=[receiver])
    return facts.read((id(owner), name), f"{facts.constant(owner)}.{name}", raw)


def _bind_to_class(facts: Facts, kind: type, name: str, raw: Any) -> Provenance:
    """Return the provenance of a class method or static method."""
    receiver = [Provenance(Kind.OUTSIDE, kind, facts.constant(kind))]
    bound = receiver if isinstance(raw, classmethod) else []
    return Provenance(Kind.METHOD, raw.__func__, name, items=bound)


def _read_from_object(facts: Facts, call: CallState, p: Provenance, name: str) -> Provenance:
    x, kind = p.value, type(p.value)
    if kind not in PURE_TYPES and not has_default_getattribute(kind):
        raise NotProvedError(f"{kind.__name__} customizes attribute lookup")
    on_class = next((c.__dict__[name] for c in kind.__mro__ if name in c.__dict__), _MISSING)
    own = getattr(x, "__dict__", {})
    facts.guard_lookup(kind, "__getattribute__")
    if isinstance(on_class, property):
        facts.guard_class(kind, name)
        return _run_getter(facts, call, p, on_class.fget)
    if name in own and not hasattr(type(on_class), "__set__"):
        if p.kind in (Kind.FRESH, Kind.ARGUMENT):
            return facts.part(p, own[name])
        facts.guard_lookup(kind, name)
        return facts.read(make_attribute_key(x, name), f"{facts.path_of(p)}.{name}", own[name])
    if on_class is not _MISSING:
        return _bind_class_attribute(facts, p, name, on_class)
    if isinstance(x, Module) and kind.__getattr__ is Module.__getattr__:
        member = _read_member(facts, p, name)
        if member is not None:
            return member
    if p.kind is Kind.OUTSIDE:
        facts.guard_absence(p, name)
    facts.guard_lookup(kind, name, "__getattr__")
    if hasattr(kind, "__getattr__"):
        return _run_getter(facts, call, p, kind.__getattr__)
    return Provenance(Kind.PLAIN)  # raises AttributeError


def _read_member(facts: Facts, p: Provenance, name: str) -> Provenance | None:
    """Return the provenance of a module's parameter, buffer or submodule, which attributes of the
    module or of its class would hide. Return None if the module has no such member."""
    own, kind = p.value.__dict__, type(p.value)
    for members in ("_parameters", "_buffers", "_modules"):
        inside = own[members]
        if name in inside:
            facts.guard_lookup(kind, name, "__getattr__")
            if p.kind is Kind.OUTSIDE and (id(p.value), Aspect.MODULE) not in facts.reads:
                facts.guard_absence(p, name)
            path = f"{facts.path_of(p)}.{members}[{name!r}]"
            return facts.read((id(inside), name), path, inside[name])
        if p.kind is Kind.OUTSIDE:
            facts.guard(f"{facts.path_of(p)}.{members}", Test.ABSENT, name)
    return None


def _run_getter(
    facts: Facts, call: CallState, p: Provenance, getter: Callable[..., Any] | None
) -> Provenance:
    """Record that the next code to run is a property or `__getattr__`, and bind its receiver."""
    code = getattr(getter, "__code__", None)
    if getter is None or code is None:
        raise NotProvedError("it reads an attribute that C code computes")
    if not is_in_library(code):
        facts.guard_code(getter)
    call.callee = Callee(code, Provenance(Kind.OUTSIDE, getter),
                         lambda frame: {code.co_varnames[0]: p})
    call.slot = Provenance(Kind.PLAIN)
    if is_in_library(code):
        facts.need(p)
        if p.kind is Kind.OUTSIDE:
            declare_object(facts, p.value, getter)
    return call.slot


def _bind_class_attribute(facts: Facts, p: Provenance, name: str, raw: Any) -> Provenance:
    x, kind = p.value, type(p.value)
    if isinstance(raw, types.FunctionType):
        if p.kind is Kind.OUTSIDE:
            facts.guard_absence(p, name)
        facts.guard_class(kind, name)
        return Provenance(Kind.METHOD, raw, name, items=[p])
    if isinstance(raw, _C_METHODS):
        return Provenance(Kind.METHOD, raw, name, items=[p])
    if isinstance(raw, (classmethod, staticmethod)):
        if runs_own_code(raw):
            raise NotProvedError(f"{kind.__name__}.{name} is computed by code of its own")
        facts.guard_class(kind, name)
        return _bind_to_class(facts, kind, name, raw)
    if not isinstance(raw, _MEMBERS) and hasattr(type(raw), "__get__"):
        return _read_descriptor(facts, p, name, raw)
    is_computed = isinstance(raw, types.GetSetDescriptorType)
    if is_computed and kind.__module__ not in ("builtins", "numpy") and name != "__dict__":
        raise NotProvedError(f"it reads {kind.__name__}.{name}, which C code computes")
    value = getattr(x, name)
    if p.kind is not Kind.OUTSIDE and not isinstance(raw, _MEMBERS) and is_own_class(kind):
        return _read_class_default(facts, p, name, value)
    if p.kind is Kind.PLAIN:
        facts.need(p)
        return Provenance(Kind.PLAIN, value) if is_plain(value) else facts.identify(value)
    if p.kind in (Kind.FRESH, Kind.ARGUMENT):
        return facts.part(p, value)
    return facts.read(make_attribute_key(x, name), f"{facts.path_of(p)}.{name}", value)


def _read_class_default(facts: Facts, p: Provenance, name: str, value: Any) -> Provenance:
    """Read a class attribute through an instance that the call created, or an enum's member."""
    kind = type(p.value)
    if p.kind is Kind.PLAIN:
        facts.need(p)
        facts.guard_absence(p, name)
    facts.guard_lookup(kind, name)
    return facts.read((id(kind), name), f"{facts.constant(kind)}.{name}", value)


def _read_descriptor(facts: Facts, p: Provenance, name: str, raw: Any) -> Provenance:
    """Return the field of a namedtuple; refuse all other descriptors."""
    if isinstance(p.value, tuple) and name in getattr(type(p.value), "_fields", ()):
        field = type(p.value)._fields.index(name)  # type: ignore[attr-defined]
        facts.guard_lookup(type(p.value), name)
        if not isinstance(raw, _FIELD):
            raise NotProvedError(f"{type(p.value).__name__}.{name} is a {type(raw).__name__}")
        if p.items and field < len(p.items):
            return p.items[field]
        if p.kind is Kind.OUTSIDE:
            path = f"{facts.path_of(p)}[{field}]"
            return facts.read((id(p.value), field), path, p.value[field])
        return facts.part(p, p.value[field])
    raise NotProvedError(f"{type(p.value).__name__}.{name} is a {type(raw).__name__}")


def has_attribute(x: Any, name: str) -> bool:
    """Whether an object has an attribute, answered without running the object's own code."""
    if isinstance(x, Module):
        members = (x.__dict__, x._parameters, x._buffers, x._modules)
        return any(name in part for part in members) or hasattr(type(x), name)
    return name in getattr(x, "__dict__", ()) or hasattr(type(x), name)
