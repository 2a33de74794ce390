"""ProgramBuilder: turn a recorded call into a program, or restore one from disk."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ..functionalization.functionalize import trace_to_graph
from ..ir.errors import Unfit, describe_failure
from ..ir.graph import Graph
from ..runtime.argument_layout import describe_arguments
from ..runtime.commit_results import can_commit
from ..runtime.optimizer_counters import snapshot_groups
from ..schedule.arena import Arena
from ..schedule.tasks import Task
from ..trace.bindings import locate_version_bumps
from ..trace.operands import flatten_call
from ..trace.trace import Trace
from ..trace.trace_signature import Precedent
from ..validation.reference import Reference
from .binding_manifest import read_manifest, write_manifest
from .build_task import Pending
from .call_policy import CallPolicy


class ProgramBuilder:
    """Builds the programs of a compiled function."""

    def __init__(self, policy: CallPolicy) -> None:
        self.policy = policy

    def start(self, trace: Trace, args: tuple, kwargs: dict[str, Any],
              precedent: Precedent | None = None) -> Pending:
        """Build the graph and bindings of a recorded call. Raises Unfit. `precedent`: the call's
        precedent, which receives the manifest."""
        pending = Pending()
        leaves = flatten_call(args, kwargs)
        try:
            pending.graph, pending.bindings = trace_to_graph(trace, leaves)
        except Unfit:
            raise
        except Exception as error:
            raise Unfit(describe_failure(error, "trace_to_graph")) from error
        if precedent is not None:
            precedent.recipe = write_manifest(trace, leaves, pending.graph, pending.bindings)
        pending.bindings.version_bumps = locate_version_bumps(trace.version_bumps, leaves)
        pending.modes, pending.proof = trace.modes, trace.proof
        pending.arguments = describe_arguments((args, kwargs))
        pending.groups = snapshot_groups(pending.bindings)
        return pending

    def compile(self, pending: Pending, arena: Arena | None = None) -> None:
        """Compile a graph. `arena`: memory to run in. Errors are stored in `pending`."""
        try:
            pending.step = self.build(pending.graph, arena)
            if pending.bindings.backward is not None:
                pending.backward = self.build(pending.bindings.backward.usual.graph)
        except BaseException as error:
            pending.error = error
        finally:
            pending.done.set()

    def build(self, graph: Graph, arena: Arena | None = None) -> Any:
        """Compile a graph and return its program."""
        if self.policy.evaluates:
            return Reference(graph)
        from .pipeline import build

        return build(graph, not self.policy.is_synchronous, arena)

    def plan(self, graph: Graph) -> list[Task]:
        """Plan a graph and return its kernels."""
        from .pipeline import optimize, plan

        return plan(optimize(graph))[0]

    def restore(self, trace: Trace, args: tuple, kwargs: dict[str, Any]) -> Pending | None:
        """Restore a program from disk; None if its manifest cannot be bound to this call."""
        from .restore import restore_program

        known = trace.deferred.precedent
        if known.recipe is None or known.table is None:
            return None
        leaves = flatten_call(args, kwargs)
        result = read_manifest(known.recipe, trace, leaves)
        if result is None or not can_commit(*result, trace.result):
            return None
        pending = Pending()
        pending.graph, pending.bindings = result
        trace.deferred.expect(pending.bindings)
        with suppress(MemoryError):  # out of memory: rebuilding from the recording reports why
            pending.step = restore_program(pending.graph, known.table, trace.deferred.arena)
        pending.modes, pending.proof = trace.modes, trace.proof
        pending.bindings.version_bumps = locate_version_bumps(trace.version_bumps, leaves)
        return None if pending.step is None else pending
