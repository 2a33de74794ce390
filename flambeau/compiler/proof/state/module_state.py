"""Guard what the library reads of modules, optimizers and Functions: members, hooks and settings.

Most changes bump the modules' change counter, which programs compare. These guards cover the rest:
direct writes to the dictionaries, and methods set on objects or classes.
"""

from __future__ import annotations

import functools
from itertools import chain
from operator import call, itemgetter
from typing import Any

from ....nn.module import Module
from ....nn.registration import CALL_HOOKS, HOOK_TABLES
from ....nn.utils.parametrize import ParametrizationCache
from ..declarations import is_in_library
from ..facts import Facts
from ..guards import Test
from ..provenance import Aspect, Kind, NotProvedError, Provenance
from .class_state import list_methods

_MEMBERS = ("_modules", "_parameters", "_buffers")
_OWN = frozenset(vars(Module()))
_FUNCTION_METHODS = ("forward", "setup_context", "backward", "vjp", "jvp", "vmap",
                     "generate_vmap_rule")
_OPTIMIZER_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")


def declare_module(facts: Facts, module: Module) -> None:
    """Guard the state and methods of a module and its submodules, which the library uses."""
    key = (id(module), Aspect.MODULE)
    if key in facts.reads:
        return
    below = list(module.modules())
    keys = [(id(module), Aspect.MODULE) for module in below]
    facts.reads.update(dict.fromkeys(keys, Provenance(Kind.PLAIN)))
    facts.proof.modules.append(module)
    for each in below:
        facts.known.setdefault(id(each), Provenance(Kind.OUTSIDE, each))
        kind: Any = type(each)
        facts.guard_class(kind, "forward")
        facts.classes.add(kind)
        space = vars(each)
        settings = (_list_settings(kind) & space.keys()) - _OWN
        facts.guard_own_classes(kind, settings.union(*[space[name] for name in _MEMBERS]))
    members = [own[name] for own in map(vars, below) for name in _MEMBERS if own[name]]
    members += [own[name] for own in map(vars, below) for name in HOOK_TABLES if name in own]
    facts.guard("the members of a module", Test.MEMBERS, [(m, dict(m)) for m in members])
    facts.guard("the settings of a module", Test.STATE, ModuleState(below))
    if any("parametrizations" in vars(each)["_modules"] for each in below):
        _guard_cache(facts)


def _guard_cache(facts: Facts) -> None:
    """Guard that parametrized tensors are computed wherever they are read."""
    if ParametrizationCache.depth:
        raise NotProvedError("it reads parametrized tensors within parametrize.cached()")
    key = (id(ParametrizationCache), Aspect.CONTENT)
    if key not in facts.reads:
        facts.reads[key] = Provenance(Kind.PLAIN)
        facts.guard(f"{facts.constant(ParametrizationCache)}.depth", Test.VALUE, 0)


def declare_called_module(facts: Facts, module: Module) -> None:
    """Guard the methods that the library finds on the class of a running module, which the step or
    a module's constructor may have created."""
    if (id(module), Aspect.MODULE) not in facts.reads:
        facts.classes.add(type(module))


def declare_optimizer(facts: Facts, optimizer: Any) -> None:
    """Guard the hooks and methods of an optimizer, which the library calls."""
    key = (id(optimizer), Aspect.OPTIMIZER)
    if key in facts.reads:
        return
    facts.reads[key] = Provenance(Kind.PLAIN)
    tables = [getattr(optimizer, name) for name in _OPTIMIZER_HOOKS]
    facts.guard("the hooks of an optimizer", Test.MEMBERS, [(m, dict(m)) for m in tables])
    facts.classes.add_object(optimizer)


def declare_custom_function(facts: Facts, kind: type) -> None:
    """Guard the methods that the library finds on a custom autograd Function."""
    facts.guard_lookup(kind, *_FUNCTION_METHODS)


class ModuleState:
    """A snapshot of module state: settings that the library reads from module dictionaries, names
    that must stay absent because they would hide members or methods, empty member tables, and the
    modules' classes."""

    def __init__(self, modules: list[Module]) -> None:
        spaces = [vars(module) for module in modules]
        kinds: list[Any] = [*map(type, modules)]
        names = [sorted(_list_settings(kind) & space.keys())
                 for kind, space in zip(kinds, spaces, strict=True)]
        self.spaces = [space for space, chosen in zip(spaces, names, strict=True) if chosen]
        self.readers = [_create_reader(chosen) for chosen in names if chosen]
        self.are_free = [space.keys().isdisjoint for space in spaces]
        self.hidden = [*map(_list_hiding_names, kinds, spaces)]
        self.empty = [space[name] for space in spaces for name in _MEMBERS if not space[name]]
        self.modules, self.classes = modules, kinds
        self.before = self._read()

    def is_same(self) -> bool:
        """Whether nothing has changed since the snapshot."""
        return (
            self._read() == self.before and all(map(call, self.are_free, self.hidden))
            and not any(self.empty) and [*map(type, self.modules)] == self.classes
        )

    def _read(self) -> list[int]:
        return [*map(id, chain.from_iterable(map(call, self.readers, self.spaces)))]


def _create_reader(names: list[str]) -> Any:
    """Return an itemgetter that reads the entries as a tuple."""
    return itemgetter(*names) if len(names) > 1 else itemgetter(names[0], names[0])


def _list_hiding_names(kind: Any, space: dict[str, Any]) -> frozenset[str]:
    """Return names that would hide members or methods, or add hooks, if set on a module."""
    names = {*CALL_HOOKS, *list_methods(kind),
             *chain.from_iterable(space[name] for name in _MEMBERS)}
    return frozenset(names - space.keys())


@functools.cache
def _list_settings(kind: Any) -> frozenset[str]:
    """Return the names that the library's methods of a module class use."""
    methods = [f for base in kind.__mro__ for f in vars(base).values()]
    codes = [f.__code__ for f in methods if hasattr(f, "__code__")]
    used = {name for code in codes if is_in_library(code) for name in code.co_names}
    return frozenset(_OWN | used)
