"""Loops that a kernel repeats on other buffers: one function for all of them.

The update of all parameters is one kernel, which has a loop for each; most differ in nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from ...loop_ir.ir import (
    Accumulator, Begin, Buffer, Contract, Kernel, Loop, Statement, Update, expressions, statements,
    within,
)
from ...loop_ir.fingerprint import outline
from .context import Context
from .vectorization import written

Body = Callable[[Kernel, str], ir.Function]


@dataclass(frozen=True)
class _Form:
    """What is the same in loops that one function does, and a loop's buffers in its order."""

    text: str
    buffers: list[Buffer]

    def is_plain(self) -> bool:
        """Whether all buffers are arguments that a function can take as they are."""
        return not any(b.aliased or b.local is not None or b.parts for b in self.buffers)


class Repeated:
    """The loops of a kernel that occur more than once. `body(kernel, name)` emits a function."""

    def __init__(self, kernel: Kernel, body: Body) -> None:
        self._kernel, self._body = kernel, body
        loops = [one for one in kernel.body if isinstance(one, Loop)]
        self._forms: dict[int, _Form] = {}
        if len(loops) > 1 and not kernel.sizes:
            found = {id(one): _Form(*outline([one])) for one in loops if _is_alone(one)}
            many = Counter(form.text for form in found.values() if form.is_plain())
            self._forms = {key: form for key, form in found.items() if many[form.text] > 1}
        self._functions: dict[str, ir.Function] = {}

    def __contains__(self, statement: Statement) -> bool:
        return id(statement) in self._forms

    def call(self, context: Context, statement: Statement) -> None:
        """Calls the function that does a loop, on its buffers."""
        form = self._forms[id(statement)]
        function = self._functions.get(form.text)
        if function is None:
            part = Kernel(self._kernel.name, form.buffers, [statement], [], self._kernel.exact)
            name = f"{context.builder.module.name}.loop{len(self._functions)}"
            function = self._functions[form.text] = self._body(part, name)
        pointers = [context.pointers[one] for one in form.buffers]
        context.builder.call(function, [context.tid, context.threads, *pointers])
        context.changed([one for one in written([statement]) if isinstance(one, Buffer)])


def _is_alone(loop: Loop) -> bool:
    """Whether all accumulators of a loop are begun in it, and there is no product."""
    inside = list(statements([loop]))
    if any(isinstance(one, Contract) for one in inside):
        return False
    begun = {one.accumulator for one in inside if isinstance(one, Begin)}
    used = {one.accumulator for one in inside if isinstance(one, Update)}
    values = within([value for one in inside for value in expressions(one)])
    used.update(one for one in values if isinstance(one, Accumulator))
    return used <= begun
