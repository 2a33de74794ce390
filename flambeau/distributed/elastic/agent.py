"""The launcher of one machine: start, watch and restart its workers."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from string import Template
from typing import Any

from .agreement import LocalRendezvous, Place, StoreRendezvous
from .multiprocessing.api import PContext, RunProcsResult, SignalException, macros, start_processes
from .multiprocessing.errors import ChildFailedError, ProcessFailure
from .multiprocessing.logs import LogsSpecs

__all__ = ["Agent", "WorkerSpec"]


@dataclass
class WorkerSpec:
    """The workers to run on a machine."""

    role: str
    local_world_size: int
    entrypoint: Callable[..., Any] | str
    args: list[Any]
    run_id: str
    max_restarts: int
    monitor_interval: float
    logs_specs: LogsSpecs
    start_method: str = "spawn"
    shutdown_timeout_s: int = 30
    log_line_prefix_template: str | None = None
    virtual_local_rank: bool = False
    name: str = ""


class Agent:
    """Runs the workers until all succeed or the restarts are used up."""

    def __init__(self, spec: WorkerSpec, rendezvous: LocalRendezvous | StoreRendezvous) -> None:
        self._spec, self._rendezvous = spec, rendezvous
        self._workers: PContext | None = None
        self._place: Place | None = None

    def run(self) -> dict[int, Any]:
        """Return the workers' values by global rank. Raises ChildFailedError if workers failed,
        SignalException if the launcher was told to stop; all workers are terminated then."""
        try:
            for attempt in range(self._spec.max_restarts + 1):
                result = self._attempt(attempt)
                if result is not None and not result.is_failed():
                    self._rendezvous.leave()
                    return self._key_by_rank(result.return_values)
                last = attempt == self._spec.max_restarts
                if result is not None:
                    self._rendezvous.ask_restart(final=last)
                    _show_first(self._key_by_rank(result.failures), attempt, last)
                if last or self._rendezvous.is_abandoned():
                    raise self._create_failure(result)
            raise AssertionError("unreachable")
        except SignalException as end:
            self._close(end.sigval)
            raise
        finally:
            self._close(signal.SIGTERM)

    def _close(self, sigval: signal.Signals) -> None:
        if self._workers is not None:
            self._workers.close(sigval, self._spec.shutdown_timeout_s)

    def _create_failure(self, result: RunProcsResult | None) -> ChildFailedError | RuntimeError:
        if result is None:
            return RuntimeError("workers on another machine failed, and no restarts are left")
        return ChildFailedError(self._spec.name, self._key_by_rank(result.failures))

    def _key_by_rank(self, values: dict[int, Any]) -> dict[int, Any]:
        assert self._place is not None
        return {self._place.first_rank + rank: value for rank, value in values.items()}

    def _attempt(self, attempt: int) -> RunProcsResult | None:
        """Run the workers once; return None if another machine's workers failed."""
        self._place = self._rendezvous.join(attempt, self._spec.local_world_size)
        spec, ranks = self._spec, range(self._spec.local_world_size)
        self._workers = start_processes(
            spec.role, spec.entrypoint,
            {rank: tuple(macros.substitute(spec.args, str(rank))) for rank in ranks},
            {rank: self._create_environment(rank, attempt) for rank in ranks},
            spec.logs_specs, self._list_prefixes(), spec.start_method,
        )
        return self._watch(self._workers)

    def _watch(self, workers: PContext) -> RunProcsResult | None:
        looked = time.monotonic()
        while (result := workers.poll()) is None:
            time.sleep(min(self._spec.monitor_interval, 0.1))
            if time.monotonic() - looked > 1.0:
                looked = time.monotonic()
                if self._rendezvous.restart_asked() or self._rendezvous.is_abandoned():
                    workers.close(signal.SIGTERM, self._spec.shutdown_timeout_s)
                    return None
        return result

    def _list_prefixes(self) -> dict[int, str] | None:
        template, place = self._spec.log_line_prefix_template, self._place
        if template is None or place is None:
            return None
        return {
            rank: Template(template).safe_substitute(
                role_name=self._spec.role, rank=place.first_rank + rank, local_rank=rank
            )
            for rank in range(self._spec.local_world_size)
        }

    def _create_environment(self, local_rank: int, attempt: int) -> dict[str, str]:
        place, spec = self._place, self._spec
        assert place is not None
        rank, size = str(place.first_rank + local_rank), str(place.world_size)
        env = {
            "LOCAL_RANK": str(local_rank), "RANK": rank, "GROUP_RANK": str(place.group_rank),
            "ROLE_RANK": rank, "ROLE_NAME": spec.role,
            "LOCAL_WORLD_SIZE": str(spec.local_world_size), "WORLD_SIZE": size,
            "GROUP_WORLD_SIZE": str(place.group_world_size), "ROLE_WORLD_SIZE": size,
            "MASTER_ADDR": place.master_addr, "MASTER_PORT": str(place.master_port),
            "TORCHELASTIC_RESTART_COUNT": str(attempt),
            "TORCHELASTIC_MAX_RESTARTS": str(spec.max_restarts),
            "TORCHELASTIC_RUN_ID": spec.run_id,
            "TORCHELASTIC_USE_AGENT_STORE": str(self._rendezvous.use_agent_store),
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING",
                                                              "1"),
        }
        if spec.virtual_local_rank:
            devices = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
            env["LOCAL_RANK"] = "0"
            env["CUDA_VISIBLE_DEVICES"] = (
                devices[local_rank].strip() if len(devices) > local_rank else str(local_rank)
            )
        return env


def _show_first(failures: dict[int, ProcessFailure], attempt: int, last: bool) -> None:
    """Print the traceback of the first worker to fail, before other reports."""
    rank = min(failures, key=lambda rank: failures[rank].timestamp)
    failure = failures[rank]
    rank_text = f"rank {rank} (local rank {failure.local_rank}, pid {failure.pid})"
    print(f"{rank_text} failed first, with exit code {failure.exitcode}:\n{failure.traceback()}",
          file=sys.stderr)
    if not last:
        print(f"All workers start again: restart {attempt + 1}.", file=sys.stderr, flush=True)
