"""Outlines loops that a kernel repeats on different buffers into one function.

An optimizer's update of all parameters is one kernel with a loop per parameter, most of them
identical.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from ...loop_ir.fingerprint import canonical_body
from ...loop_ir.ir import (
    Accumulator, Begin, Buffer, Contract, Kernel, Loop, Statement, Update, iterate_expressions,
    iterate_statements, iterate_subexpressions,
)
from .context import Context
from .vectorization import collect_written_values

Body = Callable[[Kernel, str], ir.Function]


@dataclass(frozen=True)
class _LoopShape:
    """What equal loops share: their canonical text, and the buffers in its order."""

    text: str
    buffers: list[Buffer]

    def takes_arguments_only(self) -> bool:
        """Whether all buffers are plain arguments, which a function can take unchanged."""
        return not any(b.aliased or b.local is not None or b.parts for b in self.buffers)


class Outliner:
    """The repeated loops of a kernel. `body(kernel, name)` emits a function."""

    def __init__(self, kernel: Kernel, body: Body) -> None:
        self._kernel, self._body = kernel, body
        loops = [statement for statement in kernel.body if isinstance(statement, Loop)]
        self._shapes: dict[int, _LoopShape] = {}
        if len(loops) > 1 and not kernel.sizes:
            shapes = {
                id(loop): _LoopShape(*canonical_body([loop]))
                for loop in loops
                if _is_outlinable(loop)
            }
            uses = Counter(form.text for form in shapes.values() if form.takes_arguments_only())
            self._shapes = {key: form for key, form in shapes.items() if uses[form.text] > 1}
        self._functions: dict[str, ir.Function] = {}

    def __contains__(self, statement: Statement) -> bool:
        return id(statement) in self._shapes

    def call(self, context: Context, statement: Statement) -> None:
        """Emit a call of the outlined function on a loop's buffers."""
        form = self._shapes[id(statement)]
        function = self._functions.get(form.text)
        if function is None:
            part = Kernel(self._kernel.name, form.buffers, [statement], [], self._kernel.exact)
            name = f"{context.builder.module.name}.loop{len(self._functions)}"
            function = self._functions[form.text] = self._body(part, name)
        pointers = [context.pointers[buffer] for buffer in form.buffers]
        context.builder.call(function, [context.tid, context.threads, *pointers])
        context.invalidate(
            [target for target in collect_written_values([statement]) if isinstance(target, Buffer)]
        )


def _is_outlinable(loop: Loop) -> bool:
    """Whether a loop begins all its accumulators itself and contains no contraction."""
    inside = list(iterate_statements([loop]))
    if any(isinstance(statement, Contract) for statement in inside):
        return False
    begun = {statement.accumulator for statement in inside if isinstance(statement, Begin)}
    used = {statement.accumulator for statement in inside if isinstance(statement, Update)}
    values = iterate_subexpressions([value for statement in inside for value
                                     in iterate_expressions(statement)])
    used.update(value for value in values if isinstance(value, Accumulator))
    return used <= begun
