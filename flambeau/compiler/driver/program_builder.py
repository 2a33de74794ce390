"""ProgramBuilder: turn a recorded call into a program, or restore one from disk."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ..functionalization.functionalize import trace_to_graph
from ..ir.errors import Unfit, describe_failure
from ..ir.graph import Graph
from ..runtime.argument_layout import describe_call
from ..runtime.commit_results import can_commit
from ..runtime.optimizer_counters import snapshot_groups
from ..schedule.arena import Arena
from ..schedule.tasks import Task
from ..trace.bindings import locate_version_bumps
from ..trace.carried_values import list_leaves
from ..trace.operands import flatten_call
from ..trace.trace import Trace
from ..trace.trace_signature import TraceSignature
from ..validation.reference import Reference
from .binding_manifest import read_manifest, write_manifest
from .build_task import BuildTask
from .call_policy import CallPolicy


class ProgramBuilder:
    """Builds the programs of a compiled function."""

    def __init__(self, policy: CallPolicy) -> None:
        self.policy = policy

    def start(self, trace: Trace, args: tuple, kwargs: dict[str, Any],
              signature: TraceSignature | None = None) -> BuildTask:
        """Build the graph and bindings of a recorded call. Raises Unfit. `signature`: the call's
        signature, which receives the manifest."""
        leaves = [*flatten_call(args, kwargs), *list_leaves(trace.carried)]
        try:
            graph, bindings = trace_to_graph(trace, leaves)
        except Unfit:
            raise
        except Exception as error:
            raise Unfit(describe_failure(error, "trace_to_graph")) from error
        if signature is not None:
            signature.manifest = write_manifest(trace, leaves, graph, bindings)
        bindings.version_bumps = locate_version_bumps(trace.version_bumps, leaves)
        return BuildTask(graph, bindings, trace.modes, trace.proof,
                         describe_call(args, kwargs, trace.carried), snapshot_groups(bindings))

    def compile(self, task: BuildTask, arena: Arena | None = None) -> None:
        """Compile a graph. `arena`: memory to run in. Errors are stored in `task`."""
        try:
            task.step = self.build(task.graph, arena)
            if task.bindings.backward is not None:
                task.backward = self.build(task.bindings.backward.usual.graph)
        except BaseException as error:
            task.error = error
        finally:
            task.done.set()

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

    def restore(self, trace: Trace, args: tuple, kwargs: dict[str, Any]) -> BuildTask | None:
        """Restore a program from disk; None if its manifest cannot be bound to this call."""
        from .program_cache import restore_program

        known = trace.deferred.signature
        if known.manifest is None or known.table is None:
            return None
        leaves = [*flatten_call(args, kwargs), *list_leaves(trace.carried)]
        result = read_manifest(known.manifest, trace, leaves)
        if result is None or not can_commit(*result, trace.result):
            return None
        graph, bindings = result
        trace.deferred.expect(bindings)
        task = BuildTask(graph, bindings, trace.modes, trace.proof)
        with suppress(MemoryError):  # out of memory: rebuilding from the recording reports why
            task.step = restore_program(graph, known.table, trace.deferred.arena)
        bindings.version_bumps = locate_version_bumps(trace.version_bumps, leaves)
        return None if task.step is None else task
