"""LaunchConfig configures the workers and their rendezvous; elastic_launch runs them."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..elastic.agent import Agent, WorkerSpec
from ..elastic.agreement import LocalRendezvous, StoreRendezvous, parse_endpoint
from ..elastic.multiprocessing.api import raise_on_signals
from ..elastic.multiprocessing.logs import DefaultLogsSpecs, LogsSpecs

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]

_DEFAULT_PORT = 29400  # if the rendezvous endpoint has no port
_TIMEOUT_S = 900


@dataclass
class LaunchConfig:
    """Settings for starting workers.

    `min_nodes` to `max_nodes` machines with `nproc_per_node` workers each meet at `rdzv_endpoint`,
    which may be empty for one machine. After a failure all workers restart, up to `max_restarts`
    times. `rdzv_configs` may contain "rank" (of this machine) and "timeout" (in seconds).
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: LogsSpecs | None = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "etcd"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: int | None = None

    def __post_init__(self) -> None:
        if self.rdzv_timeout != -1:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        self.rdzv_configs.setdefault("timeout", _TIMEOUT_S)
        if self.logs_specs is None:
            self.logs_specs = DefaultLogsSpecs()
        if self.shutdown_timeout is None:
            self.shutdown_timeout = int(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30"))
        elif self.shutdown_timeout < 0:
            raise ValueError(f"shutdown_timeout must be non-negative, got {self.shutdown_timeout}")


class elastic_launch:
    """`elastic_launch(config, entrypoint)(*args)` runs a function or a command in all workers.

    Returns the functions' values by global rank. Raises ChildFailedError if workers failed.
    """

    def __init__(self, config: LaunchConfig, entrypoint: Callable[..., Any] | str | None) -> None:
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args: Any) -> dict[int, Any]:
        return launch_agent(self._config, self._entrypoint, list(args))


def launch_agent(
    config: LaunchConfig, entrypoint: Callable[..., Any] | str | None, args: list[Any]
) -> dict[int, Any]:
    """Run the workers of this machine; see `elastic_launch`."""
    assert entrypoint is not None
    assert config.logs_specs is not None
    config.run_id = config.run_id or str(uuid.uuid4().int)
    os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = config.signals_to_handle
    spec = WorkerSpec(
        config.role, config.nproc_per_node, entrypoint, args, config.run_id, config.max_restarts,
        config.monitor_interval, config.logs_specs, config.start_method,
        config.shutdown_timeout or 0, config.log_line_prefix_template, config.virtual_local_rank,
        name_of(entrypoint, args),
    )
    raise_on_signals()
    return Agent(spec, _create_rendezvous(config)).run()


def name_of(entrypoint: Callable[..., Any] | str, args: list[Any]) -> str:
    """Return the workers' name in reports: the function, script or command."""
    if not isinstance(entrypoint, str):
        return entrypoint.__name__
    if entrypoint != sys.executable:
        return entrypoint
    words = [arg for arg in args if not arg.startswith("-")]
    if words[:1] == ["flambeau"] and len(words) > 1:  # python -m flambeau script.py
        words.pop(0)
    return words[0] if words else ""


def _create_rendezvous(config: LaunchConfig) -> LocalRendezvous | StoreRendezvous:
    static = config.rdzv_backend == "static"
    if static and not config.rdzv_endpoint.strip():
        raise ValueError(
            "Endpoint is missing in endpoint. Try to add --master-addr and --master-port"
        )
    if config.rdzv_backend.startswith("etcd") and config.rdzv_endpoint:
        raise NotImplementedError(
            f"rdzv_backend={config.rdzv_backend!r} is not implemented in flambeau: use 'c10d'"
        )
    host, port = parse_endpoint(config.rdzv_endpoint, -1 if static else _DEFAULT_PORT)
    if port == -1:
        raise ValueError(
            f"port is missing in endpoint: {config.rdzv_endpoint}. Try to specify --master-port"
        )
    if config.max_nodes == 1:
        return LocalRendezvous(host, port if static else 0)
    return StoreRendezvous(
        host, port, config.run_id, (config.min_nodes, config.max_nodes),
        config.rdzv_configs.get("rank") if static else None,
        float(config.rdzv_configs["timeout"]),
    )
