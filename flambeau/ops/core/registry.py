"""The registry: one declaration per operator, from which everything else is derived.

A declaration is a body on NumPy arrays (its annotations say which parameters are tensors), its
docstring, its derivative (`@op.vjp`; `@op.jvp` if forward mode needs one), its vmap rule
(`@op.batch`, if no declared fact implies it), an oracle (`ref`) and test inputs (`samples`).
Derived: the function, the tensor method, the in-place twin, `out=`, `axis=`, the tape's node, the
tests and the typing stub.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, overload

from .dispatch import PASSES_NUMBERS, build
from .operator import OPERATORS, Kind, Operator, publish

Rule = TypeVar("Rule", bound=Callable)


class Declared(Protocol):
    """A declared function; `@function.vjp` preserves the rule's type."""

    operator: Operator
    __name__: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    @overload
    def vjp(self, target: str) -> Callable[[Rule], Rule]: ...

    @overload
    def vjp(self, target: Rule) -> Rule: ...

    def jvp(self, rule: Rule) -> Rule: ...
    def value_and_jvp(self, rule: Rule) -> Rule: ...

    def batch(self, rule: Rule) -> Rule: ...


def declare(kind: Kind, **options: Any) -> Callable[[Callable], Declared]:
    """Return a decorator that registers a body and returns the public function."""

    def decorate(body: Callable) -> Declared:
        name = options.get("name", body.__name__)
        rest = {k: v for k, v in options.items() if k != "name"}
        if name in OPERATORS:
            raise TypeError(f"operator {name} declared twice")
        operator = OPERATORS[name] = Operator(name, kind, body, rest)
        function: Any = build(operator)
        operator.function = function
        function.operator = operator
        if kind is not Kind.COMPOSITE:
            function.vjp, function.jvp = operator.declare_vjp, operator.declare_jvp
            function.value_and_jvp = operator.declare_value_and_jvp
        function.batch = operator.declare_batch
        publish(function, (name, *operator.aliases), operator.expose)
        declared: Declared = function
        return declared

    return decorate


def pointwise(**options: Any) -> Callable[[Callable], Declared]:
    """Declare an elementwise operator, with broadcasting and promotion."""
    return declare(Kind.POINTWISE, **options)


def view(**options: Any) -> Callable[[Callable], Declared]:
    """Declare an operator whose body returns views of its input's memory."""
    return declare(Kind.VIEW, **options)


def opaque(**options: Any) -> Callable[[Callable], Declared]:
    """Declare an operator with its own shape rule, whose body returns new arrays."""
    return declare(Kind.OPAQUE, **options)


def composite(**options: Any) -> Callable[[Callable], Declared]:
    """Declare an operator made of others, whose body takes and returns tensors."""
    return declare(Kind.COMPOSITE, **options)


def shape_depends_on_values(function: Any) -> Any:
    """Mark a public function whose result's shape depends on tensor values."""
    function.shape_depends_on_values = True
    return function


def views_as(operator: Any) -> Callable:
    """Mark a composite that returns this view of its first argument if it copies nothing."""

    def mark(function: Any) -> Any:
        function.views_as = operator.operator
        return function

    return mark


def repeats_operators(*settings: Callable[[], Any]) -> Callable[[Rule], Rule]:
    """Mark a composite that runs the same operators, on the same operands, whenever its arguments
    have the same classes, layouts, gradient flags and plain values, under the same settings.

    A followed call may then create its results without running it. The composite must read nothing
    else: no attributes of tensors or other objects, no state of a module. `settings`: functions
    that return each setting that it reads, as an object that is replaced when the setting changes.
    """

    def mark(function: Any) -> Any:
        if function.operator.node_names:
            raise TypeError(f"{function.operator.name} names its node: a followed call would not")
        function.repeats_operators = settings
        return function

    return mark


def numbers_are_operands(function: Any) -> Any:
    """Mark a composite that runs the same operators for all ints and floats of its arguments, which
    are their operands. A followed call compares the operators instead of the arguments, and a
    proved one may take such a number as an input of its program."""
    function.numbers_are_operands = True
    PASSES_NUMBERS.add(inspect.unwrap(function).__code__)
    return function


def writes_by_operators(function: Any) -> Any:
    """Mark an in-place function that computes and writes through operators, `assign` and draws
    only. Compiled calls list those instead of the call, which they then need no values for."""
    function.writes_by_operators = True
    return function


def answers_from_values(function: Any) -> Any:
    """Mark a public function that reads tensor values and returns a Python value."""
    function.answers_from_values = True
    return function
