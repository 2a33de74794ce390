"""Calls: what runs and what it returns, for Python and library functions, classes and C code."""

from __future__ import annotations

import abc
import functools
import sys
import types
from collections import OrderedDict
from dataclasses import replace
from typing import Any

from ...native.foundation.context_wrappers import look_through
from ...nn.module import Module
from ...optim.lr_scheduler import LRScheduler
from ...optim.optimizer import Optimizer
from ...tensor.tensor import Tensor
from . import c_calls
from .contents import guard_content
from .contents import refuse_tensors
from .declarations import (
    LIBRARY, is_custom_function, is_declared, is_in_library, is_performed,
)
from .facts import Facts, refuse_finalizer
from .guards import Test
from .numbers.decisions import call_of_numbers, convert_to_bool
from .numbers.inputs import offer_numbers
from .printing import make_text, note_print
from .provenance import (
    UNKNOWN, Aspect, Kind, NotProvedError, Provenance, Variable, depends_on_values, is_plain,
    make_attribute_key,
)
from .purity import NUMBER_TYPES, PURE_TYPES, find_on_class, is_numpy_of_numbers
from .shadow_frame import CallState, Callee, Operands, Runs, ShadowFrame
from .state.module_state import declare_custom_function, declare_module, declare_optimizer
from .state.object_state import declare_object
from .state.saved_state import declare_saved_state, is_loading, is_saving

Named = dict[str, Provenance]
_COROUTINE, _GENERATOR, _STAR, _STARS = 0x280, 0x20, 0x04, 0x08  # flags of code objects


def invoke(
    facts: Facts, frame: Any, s: ShadowFrame, callee: Provenance, args: list[Provenance],
    named: Named,
) -> Provenance:
    """Return the provenance of a call's result, and set `s.call` to describe what runs."""
    args = [*(callee.items or ()), *args]
    operands = [*args, *named.values()]
    value = callee.value
    slot = Provenance(Kind.PLAIN, tainted=any(p.tainted for p in operands))
    s.call = CallState(
        slot, callee.path, tainted=slot.tainted,
        operands=Operands(
            has_tensors=any(p.kind is Kind.TENSOR for p in operands),
            are_plain=(
                all(p.kind is Kind.PLAIN for p in operands) and not _holds_receiver(value)
            ),
        ),
    )
    if callee.kind is Kind.OPAQUE:
        raise NotProvedError(f"it calls a {type(value).__name__} from code that is not watched")
    if callee.kind is Kind.PLAIN:
        raise NotProvedError("it calls an object of unknown origin")
    if callee.code is not None:  # a function that the step created
        return _call_python(facts, s.call, callee, callee.code, None, args, named)
    if args and args[0].kind is Kind.NUMBER and value is UNKNOWN:
        return Provenance(Kind.NUMBER)
    if value is UNKNOWN and _is_library_module(callee):
        file = sys.modules[callee.type.__module__].__file__ or ""
        return _call_library(facts, s.call, Module.__call__, file, args, named)
    if value is UNKNOWN:
        raise NotProvedError("it calls an object of unknown origin")
    if isinstance(value, types.MethodType):
        method = Provenance(
            Kind.METHOD, value.__func__, callee.path,
            items=[_identify_receiver(facts, value.__self__)]
        )
        return invoke(facts, frame, s, method, args, named)
    if isinstance(value, types.FunctionType):
        if (within := look_through(value)) is not None:
            return invoke(facts, frame, s, _unwrap(facts, value, *within), args, named)
        return _call_function(facts, s.call, callee, args, named)
    if isinstance(value, type):
        return _call_class(facts, frame, s, value, args, named)
    return _call_object(facts, frame, s, callee, args, named)


def _unwrap(facts: Facts, wrapper: Any, context: Any, function: Any) -> Provenance:
    """Return the function that a wrapper of the library calls within a context."""
    declare_object(facts, context)
    return facts.read((id(wrapper), Aspect.CONTENT), facts.constant(function), function)


def _is_library_module(p: Provenance) -> bool:
    """Whether the step created this object as a module of the library, such as `nn.MSELoss()`."""
    return (p.kind is Kind.FRESH and isinstance(p.type, type) and issubclass(p.type, Module)
            and p.type.__module__.startswith("flambeau."))


def _holds_receiver(function: Any) -> bool:
    """Whether a function wraps a method whose receiver is in its closure, as an optimizer's step
    does whose calls a scheduler notes."""
    in_class = "." in getattr(function, "__qualname__", "").rpartition("<locals>.")[2]
    return in_class and bool(getattr(function, "__closure__", None))


def _identify_receiver(facts: Facts, owner: Any) -> Provenance:
    p = facts.identify(owner)
    if p.kind is Kind.OPAQUE:
        p = Provenance(Kind.OUTSIDE, owner, facts.constant(owner))
        facts.known[id(owner)] = p
    return p


def _call_object(
    facts: Facts, frame: Any, s: ShadowFrame, callee: Provenance, args: list[Provenance],
    named: Named,
) -> Provenance:
    """Call a module, a partial, an object with `__call__`, or a C function."""
    value = callee.value
    if value is print:
        assert s.call is not None
        s.call.carries = s.call.keeps_slot = True
        return note_print(facts, frame, s, args, named)
    if isinstance(value, Module):
        declare_module(facts, value)
    elif value.__class__ is functools.partial:
        return _call_partial(facts, frame, s, callee, args, named)
    elif c_calls.is_c_function(value):
        return c_calls.invoke(facts, s, callee, args, named)
    method = find_on_class(type(value), "__call__")
    if find_on_class(type(value), "_flambeau_serve"):  # compiled
        if not isinstance(value, Module):
            return _call_compiled(facts, frame, s, callee, args, named)
        method = Module._call_impl
    if not isinstance(method, types.FunctionType):
        return c_calls.invoke(facts, s, callee, args, named)
    if not is_in_library(method.__code__):
        facts.guard_class(type(value), "__call__")
    bound = Provenance(Kind.METHOD, method, "__call__", items=[callee])
    return invoke(facts, frame, s, bound, args, named)


def _call_partial(
    facts: Facts, frame: Any, s: ShadowFrame, callee: Provenance, args: list[Provenance],
    named: Named,
) -> Provenance:
    """Call an outside functools.partial."""
    if callee.kind is not Kind.OUTSIDE:
        raise NotProvedError("it calls a partial that it created")
    value, path = callee.value, facts.path_of(callee)
    function = facts.read(make_attribute_key(value, "func"), f"{path}.func", value.func)
    if (id(value), Aspect.CONTENT) not in facts.reads:
        facts.reads[id(value), Aspect.CONTENT] = callee
        facts.guard(f"{path}.args", Test.IDENTITY, value.args)  # `__setstate__` replaces it
    first = [facts.read((id(value.args), i), f"{path}.args[{i}]", x)
             for i, x in enumerate(value.args)]
    keywords = facts.read(make_attribute_key(value, "keywords"), f"{path}.keywords", value.keywords)
    guard_content(facts, keywords)
    named = {**{key: facts.reads[id(value.keywords), key] for key in value.keywords}, **named}
    facts.need(*first)
    return invoke(facts, frame, s, function, [*first, *args], named)


def _call_compiled(
    facts: Facts, frame: Any, s: ShadowFrame, callee: Provenance, args: list[Provenance],
    named: Named,
) -> Provenance:
    """Call an outside compiled function: a recorded step calls its function."""
    if callee.kind is not Kind.OUTSIDE:
        raise NotProvedError("it calls a compiled function that it created")
    value = callee.value
    function = facts.read(make_attribute_key(value, "_function"),
                          f"{facts.path_of(callee)}._function", value._function)
    return invoke(facts, frame, s, function, args, named)


# --------------------------------------------------------------------------------- functions


def _call_function(
    facts: Facts, call: CallState, callee: Provenance, args: list[Provenance], named: Named
) -> Provenance:
    function = callee.value
    code = function.__code__
    if is_in_library(code):
        return _call_library(facts, call, function, code.co_filename, args, named)
    if code.co_flags & _COROUTINE:
        raise NotProvedError("it calls a coroutine")
    facts.guard_code(function)
    return _call_python(facts, call, callee, code, function, args, named)


def _call_python(
    facts: Facts, call: CallState, callee: Provenance, code: types.CodeType, function: Any,
    args: list[Provenance], named: Named,
) -> Provenance:
    """Call a Python function, which is watched too."""
    assert call.slot is not None
    if code.co_flags & _GENERATOR:  # its code runs later
        generator = Provenance(Kind.FRESH, tainted=call.slot.tainted)
        late = Provenance(Kind.FRESH, code=code, cells=callee.cells)
        facts.functions[code] = [late] if function is None else [callee]
        call.slot = None
        call.tainted = False
        return generator
    call.callee = Callee(code, callee, lambda frame: bind_parameters(
        facts, callee, code, function, args, named))
    return call.slot


def bind_parameters(
    facts: Facts, callee: Provenance, code: types.CodeType, function: Any,
    args: list[Provenance], named: Named,
) -> Named:
    """Return the provenances of a function's parameters by name."""
    count, names = code.co_argcount, code.co_varnames
    bound = dict(zip(names[:count], args, strict=False))
    own = names[: count + code.co_kwonlyargcount]
    rest: Named = {}
    for key, p in named.items():
        (bound if key in own else rest)[key] = p
    index = len(own)
    if code.co_flags & _STAR:
        more = args[count:]
        facts.need(*more)
        tainted = any(p.tainted for p in more)
        bound[names[index]] = Provenance(Kind.FRESH, items=more, tainted=tainted, type=tuple)
        index += 1
    facts.need(*rest.values())
    if code.co_flags & _STARS:
        tainted = any(p.tainted for p in rest.values())
        bound[names[index]] = Provenance(Kind.FRESH, tainted=tainted, type=dict)
    if function is not None:
        _add_defaults(facts, callee, function, bound)
    return bound


def _add_defaults(facts: Facts, callee: Provenance, function: Any, bound: Named) -> None:
    code = function.__code__
    values = function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    defaults = {**dict(zip(names, values, strict=True)), **(function.__kwdefaults__ or {})}
    for key, x in defaults.items():
        if key in bound:
            continue
        place = (id(function), Aspect.DEFAULTS)
        if place not in facts.reads:
            facts.reads[place] = callee
            path = facts.constant(function)
            facts.guard(f"{path}.__defaults__", Test.IDENTITY, function.__defaults__)
            if function.__kwdefaults__:
                guard_content(facts, facts.read((id(function), "__kwdefaults__"),
                              f"{path}.__kwdefaults__", function.__kwdefaults__))
        bound[key] = (Provenance(Kind.PLAIN, x) if is_plain(x) else
                      facts.read((id(function), key), facts.constant(x), x))


def _note_performed(facts: Facts, scheduler: LRScheduler) -> None:
    """Note what a scheduler's step changes. Guards run earlier and cannot cover later reads."""
    groups = scheduler.optimizer.param_groups
    for x in (scheduler, vars(scheduler), *groups):
        facts.performed[id(x)] = x


def _call_library(
    facts: Facts, call: CallState, function: Any, file: str, args: list[Provenance], named: Named
) -> Provenance:
    """Call a library function, if the library declares what it reads and writes."""
    name = getattr(function, "__name__", "")
    if is_saving(function) or is_loading(function):
        declare_saved_state(facts, function, args, named)
        call.created = OrderedDict if is_saving(function) else None
    elif not is_declared(function, file):
        raise NotProvedError(f"{name}() changes or reads state that no guard covers")
    if is_custom_function(function):
        declare_custom_function(facts, args[0].value)
    if is_performed(function):
        call.runs = Runs.PERFORMED
        _note_performed(facts, args[0].value)
    elif args and isinstance(args[0].value, LRScheduler):
        raise NotProvedError(f"{name}() reads a scheduler's state, which no guard covers")
    operands = [*args, *named.values()]
    if call.operands.has_tensors:
        offer_numbers(facts, call, operands)
    else:
        facts.need(*operands)
    for p in operands:
        c_calls.check_callback(p)
        if p.tainted and p.kind is not Kind.FRESH:
            raise depends_on_values(f"{name}() gets a number that")
        if p.tainted:
            raise NotProvedError(f"{name}() takes numbers that depend on a tensor's values")
        if p.kind is not Kind.OUTSIDE:
            continue
        if isinstance(p.value, Optimizer):
            declare_optimizer(facts, p.value)
            call.operands = replace(call.operands, has_optimizer=True)
            continue
        if isinstance(p.value, Module):
            declare_module(facts, p.value)
        elif not type(p.value).__module__.startswith(("flambeau", "torch")):
            guard_content(facts, p)
        declare_object(facts, p.value, function)
    assert call.slot is not None
    code = getattr(function, "__code__", None)
    if code is not None and code.co_flags & _GENERATOR:
        call.slot.kind, call.slot.type = Kind.FRESH, types.GeneratorType
    return call.slot


# ----------------------------------------------------------------------------------- classes


def _call_class(
    facts: Facts, frame: Any, s: ShadowFrame, kind: type, args: list[Provenance], named: Named
) -> Provenance:
    """Call a class."""
    call = s.call
    assert call is not None
    if kind is super:
        return _call_super(frame, args)
    if kind is type and len(args) == 1:
        if args[0].value is UNKNOWN:
            raise NotProvedError("type() of an object of unknown origin")
        owner = type(args[0].value)
        if args[0].kind is Kind.OUTSIDE:
            facts.guard_type(args[0])
        return Provenance(Kind.OUTSIDE, owner, facts.constant(owner))
    if kind is filter:
        raise NotProvedError("filter() branches on values inside C code")
    if kind in PURE_TYPES:
        return _call_pure_type(facts, call, kind, args, named)
    if is_numpy_of_numbers(kind, [p.value for p in (*args, *named.values())]):
        facts.need(*args, *named.values())
        return c_calls.call_numpy(facts, call, [*args, *named.values()])
    facts.guard_special_methods(kind)
    if issubclass(kind, BaseException):
        return Provenance(Kind.FRESH, type=kind)
    file = getattr(sys.modules.get(kind.__module__), "__file__", "") or ""
    if file.startswith(LIBRARY):
        facts.guard_lookup(kind, "__init__")
        facts.classes.add(kind)
        if hasattr(kind, "_validate_args"):  # a distribution checks its arguments by default
            facts.guard_class(kind, "_validate_args")
        _call_library(facts, call, kind, file, args, named)
        call.keeps_slot = True
        call.slot = (Provenance(Kind.TENSOR) if issubclass(kind, Tensor) else
                     Provenance(Kind.FRESH, type=kind))
        return call.slot
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _create_named_tuple(facts, call, kind, args, named)
    return _create_instance(facts, s, kind, args, named)


def _call_super(frame: Any, args: list[Provenance]) -> Provenance:
    local = frame.f_locals
    owner = args[0].value if args else local.get("__class__")
    receiver = args[1].value if args else local[frame.f_code.co_varnames[0]]
    return Provenance(Kind.FRESH, super(owner, receiver))


def _call_pure_type(
    facts: Facts, call: CallState, kind: type, args: list[Provenance], named: Named
) -> Provenance:
    operands = [*args, *named.values()]
    truth = convert_to_bool(args[0]) if kind is bool and len(operands) == len(args) == 1 else None
    if truth is not None:
        call.slot, call.carries = None, True
        return truth
    number = call_of_numbers(facts, kind, args) if kind in (int, float) and not named else None
    if number is not None:
        call.carries = call.keeps_slot = True
        return number
    text = make_text(facts, str, args) if kind is str and not named and len(args) == 1 else None
    if text is not None:
        call.carries = call.keeps_slot = True
        return text
    facts.need(*operands)
    if kind in (set, frozenset):
        refuse_tensors(*args)
    for p in operands:
        c_calls.check_callback(p)
        guard_content(facts, p)
        if p.kind is Kind.OPAQUE:
            raise NotProvedError(f"{kind.__name__}() of an object of unknown origin")
        if p.kind is Kind.OUTSIDE and hasattr(type(p.value), "__next__"):
            raise NotProvedError(f"{kind.__name__}() advances an iterator from outside the step")
    call.keeps_slot = True
    assert call.slot is not None
    if kind in NUMBER_TYPES:
        if call.operands.has_tensors:
            call.slot.kind, call.slot.tainted = Kind.NUMBER, True
        call.slot.type = kind
    else:
        call.slot = Provenance(Kind.FRESH, tainted=call.tainted, type=kind)
    return call.slot


def _create_named_tuple(
    facts: Facts, call: CallState, kind: Any, args: list[Provenance], named: Named
) -> Provenance:
    constructor = kind.__new__
    generated = getattr(constructor, "__globals__", {}).get("__name__", "")
    facts.guard_lookup(kind, "__init__")
    init = find_on_class(kind, "__init__")
    is_usual = kind.__class__ is type and init is vars(object)["__init__"]
    if not is_usual or not str(generated).startswith("namedtuple_"):
        raise NotProvedError(f"{kind.__name__} customizes how its instances are created")
    refuse_finalizer(facts, kind)
    facts.guard_class(kind, "__new__")
    fields = dict(zip(kind._fields, args, strict=False)) | named
    values = constructor.__defaults__ or ()
    path = f"{facts.constant(constructor)}.__defaults__"
    facts.guard(path, Test.IDENTITY, constructor.__defaults__)
    last = kind._fields[len(kind._fields) - len(values) :]
    defaults = {key: Provenance(Kind.PLAIN, x) for key, x in zip(last, values, strict=True)
                if is_plain(x)}
    items = [fields.get(key) or defaults.get(key) for key in kind._fields]
    if not all(items):
        raise NotProvedError(f"{kind.__name__} has a default that is an object")
    call.runs = Runs.PERFORMED  # its constructor runs none of the step's code
    call.keeps_slot = True
    call.slot = Provenance(Kind.FRESH, tainted=call.tainted, type=kind, items=items)
    return call.slot


def _create_instance(
    facts: Facts, s: ShadowFrame, kind: type, args: list[Provenance], named: Named
) -> Provenance:
    """Create an instance of a class that the step defines."""
    assert s.call is not None
    init = find_on_class(kind, "__init__")
    constructor: Any = kind.__new__
    tainted = s.call.tainted
    if constructor is not object.__new__ or type(kind) not in (type, abc.ABCMeta):
        raise NotProvedError(f"{kind.__name__} customizes how its instances are created")
    if not isinstance(init, types.FunctionType) and init is not vars(object)["__init__"]:
        raise NotProvedError(f"{kind.__name__} is a class whose constructor is not watched")
    refuse_finalizer(facts, kind)
    facts.guard_lookup(kind, "__init__", "__new__")
    created = Provenance(Kind.FRESH, tainted=tainted)
    s.call = CallState(created, tainted=tainted, created=kind, keeps_slot=True)
    if isinstance(init, types.FunctionType):
        facts.guard_code(init)
        function = Provenance(Kind.OUTSIDE, init, facts.constant(init))

        def bind(frame: Any) -> Named:
            created.value = frame.f_locals[init.__code__.co_varnames[0]]
            facts.known[id(created.value)] = created
            return bind_parameters(facts, function, init.__code__, init, [created, *args], named)

        s.call.callee = Callee(init.__code__, function, bind)
    return created


def find_function(frame: Any) -> Any:
    """Return the function that a frame runs, or None if several candidates remain."""
    import gc

    code = frame.f_code
    candidates = [f for f in gc.get_referrers(code) if isinstance(f, types.FunctionType)
                  and f.__code__ is code]
    if len(candidates) > 1:
        candidates = [f for f in candidates if _has_cells_of(f, frame)]
    return candidates[0] if len(candidates) == 1 else None


def _has_cells_of(function: types.FunctionType, frame: Any) -> bool:
    local = frame.f_locals
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            if cell.cell_contents is not local.get(name, UNKNOWN):
                return False
        except ValueError:
            if name in local:
                return False
    return True


def is_collection_callback(frame: Any) -> bool:
    """Whether a frame is a garbage collection callback, which Python may run at any moment."""
    import gc

    codes = [getattr(callback, "__code__", None) for callback in gc.callbacks]
    return frame.f_code in codes


def enter(facts: Facts, frame: Any, above: ShadowFrame | None) -> ShadowFrame:
    """Return the shadow of a new frame, matched by the opcode that calls it or by identity."""
    code = frame.f_code
    call = above.call if above is not None else None
    bound: dict[str, Provenance] = {}
    function: Provenance | None = None
    callee = None
    if call is not None and call.callee_code is code and not call.seen.entered_callee:
        callee = call.callee
        call.seen.entered_callee = True
    if callee is not None:
        function, bound = callee.function, callee.bind(frame)
    elif code in facts.functions:
        if len(facts.functions[code]) > 1:
            raise NotProvedError("code that is not watched calls one of several functions")
        function = facts.functions[code][0]
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    for name in code.co_varnames[:count]:
        if name not in bound and name in frame.f_locals:
            bound[name] = facts.identify(
                frame.f_locals[name], call is not None and call.tainted,
                None if call is None else call.created,
            )
    if callee is None:
        _guard_method(facts, frame)
        _guard_replacement(facts, frame)
    shadow = ShadowFrame.of(code, function, bound)
    if code.co_freevars:
        _bind_cells(facts, shadow, frame, function)
    return shadow


def _guard_method(facts: Facts, frame: Any) -> None:
    """Guard that C code or the library will find the same method on the class."""
    code: types.CodeType = frame.f_code
    if code.co_argcount:
        kind = type(frame.f_locals.get(code.co_varnames[0]))
        for owner in kind.__mro__:
            for name, member in owner.__dict__.items():
                function = _find_function(member, code)
                if function is not None:
                    facts.guard_lookup(kind, name)
                    facts.guard_code(function)


def _guard_replacement(facts: Facts, frame: Any) -> None:
    """Guard that the library will find this function, which replaces one of its own, where it found
    it now: in a namespace of its caller, or in a module that the caller names."""
    code, caller = frame.f_code, frame.f_back
    if caller is None or not is_in_library(caller.f_code):
        return
    names, space = caller.f_code.co_names, caller.f_globals
    modules = [space[name] for name in names if isinstance(space.get(name), types.ModuleType)]
    for namespace in (space, *map(vars, modules)):
        for name in names:
            function = _find_function(namespace.get(name), code)
            if function is not None:
                facts.guard(f"{facts.constant(namespace)}[{name!r}]", Test.IDENTITY,
                            namespace[name])
                facts.guard_code(function)


def _bind_cells(
    facts: Facts, shadow: ShadowFrame, frame: Any, function: Provenance | None
) -> None:
    code: types.CodeType = frame.f_code
    if function is not None and function.cells is not None:
        shadow.cells.update(zip(code.co_freevars, function.cells, strict=True))
        return
    x: Any = UNKNOWN if function is None else function.value
    if x is UNKNOWN:
        x = find_function(frame)
    x = getattr(x, "__func__", x)  # unwrap a method
    if x is None or getattr(x, "__code__", None) is not code:
        raise NotProvedError(f"the function object that runs {code.co_name} is unknown")
    for name, cell in zip(code.co_freevars, x.__closure__, strict=True):
        path = f"{facts.constant(cell)}.cell_contents"
        shadow.cells[name] = Variable(None, path, cell)


def _find_function(member: Any, code: types.CodeType) -> Any:
    """Return the function of a class member or property that has this code, or None."""
    parts = (member.fget, member.fset, member.fdel) if isinstance(member, property) else (member,)
    return next((f for f in parts if getattr(f, "__code__", None) is code), None)
