"""torchrun: start the workers of a distributed program on this machine.

    torchrun --nproc-per-node=2 train.py --epochs 3
    flambeau -m torch.distributed.run --standalone --nproc-per-node=2 train.py

Each worker finds its rank in RANK and LOCAL_RANK, the number of workers in WORLD_SIZE, and the
others at MASTER_ADDR:MASTER_PORT; `init_process_group` reads them.
"""

from __future__ import annotations

import os
import runpy
import sys
import uuid
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any

from ..native.foundation.user_frames import warn
from .argparse_util import check_env, env
from .elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
from .elastic.multiprocessing.api import macros
from .elastic.multiprocessing.errors import ChildFailedError, record
from .launcher.api import LaunchConfig, elastic_launch

__all__ = ["config_from_args", "get_args_parser", "main", "parse_args", "run"]

_DEFAULT_PORT = 29500
# Option, type, default, help. Each is available as --with-dashes, --with_underscores, PET_<NAME>.
_OPTIONS: tuple[tuple[str, Any, Any, str], ...] = (
    ("nnodes", str, "1:1", "number of machines, or <least>:<most>"),
    ("nproc-per-node", str, "1", "workers on each machine: a number, `auto` or `cpu`"),
    ("rdzv-backend", str, "static", "how machines find each other: `static` or `c10d`"),
    ("rdzv-endpoint", str, "", "where they do, <host>:<port>"),
    ("rdzv-id", str, "none", "a name for this run that all machines have in common"),
    ("rdzv-conf", str, "", "<key>=<value>,...: `timeout` in seconds, `rank`"),
    ("max-restarts", int, 0, "how often all workers start again after a failure"),
    ("monitor-interval", float, 0.1, "seconds between looks at the workers"),
    ("start-method", str, "spawn", "how Python functions start: spawn, fork, forkserver"),
    ("event-log-handler", str, "null", "accepted"),
    ("role", str, "default", "a name for the workers, in their logs"),
    ("log-dir", str, None, "the folder of log files"),
    ("local-ranks-filter", str, "", "only these workers' output is shown: 0,1"),
    ("node-rank", int, 0, "the number of this machine, with the static backend"),
    ("master-addr", str, "127.0.0.1", "the address of machine 0, with the static backend"),
    ("master-port", int, None, "the port of machine 0, with the static backend (29500)"),
    ("local-addr", str, None, "the address of this machine"),
    ("logs-specs", str, None, "accepted"),
    ("numa-binding", str, None, "accepted"),
    ("signals-to-handle", str, "SIGTERM,SIGINT,SIGHUP,SIGQUIT", "signals that workers get too"),
    ("shutdown-timeout", int, None, "seconds that workers have to end in (30)"),
)
_FLAGS = (
    ("standalone", "one machine, and a free port"),
    ("no-python", "the program is no Python script"),
    ("run-path", "run the script in workers that are forked or spawned Python processes"),
    ("virtual-local-rank", "LOCAL_RANK is 0 in all workers"),
)


def _spell_option(name: str) -> list[str]:
    return list(dict.fromkeys([f"--{name}", f"--{name.replace('-', '_')}"]))


def _split_words(text: str) -> list[str]:
    comma = "\0"
    return [word.replace(comma, ",") for word in text.replace(",,", comma).split(",")]


def get_args_parser() -> ArgumentParser:
    """Return the command-line parser."""
    parser = ArgumentParser(description="Torch Distributed Elastic Training Launcher")
    for name, kind, default, text in _OPTIONS:
        parser.add_argument(*_spell_option(name), action=env, type=kind, default=default, help=text)
    for name, text in _FLAGS:
        parser.add_argument(*_spell_option(name), action=check_env, help=text)
    parser.add_argument("-m", "--module", action=check_env, help="the script is a module")
    parser.add_argument("-r", "--redirects", action=env, type=str, default="0",
                        help="output to files: 1 stdout, 2 stderr, 3 both, or 0:3,1:1")
    parser.add_argument("-t", "--tee", action=env, type=str, default="0",
                        help="output to files and the console")
    for name in ("duplicate-stdout-filters", "duplicate-stderr-filters"):
        parser.add_argument(
            *_spell_option(name), action=env, type=_split_words, default=[], help="accepted"
        )
    parser.add_argument("training_script", type=str, help="the program, followed by its arguments")
    parser.add_argument("training_script_args", nargs=REMAINDER)
    return parser


def parse_args(args: list[str] | None) -> Namespace:
    """Parse the command line, by default from sys.argv."""
    return get_args_parser().parse_args(args)


def parse_min_max_nnodes(nnodes: str) -> tuple[int, int]:
    """Parse "MIN:MAX" or "N" machines. Raises RuntimeError for another format."""
    parts = nnodes.split(":")
    if len(parts) > 2:
        raise RuntimeError(f'nnodes={nnodes} is not in "MIN:MAX" format')
    return int(parts[0]), int(parts[-1])


def determine_local_world_size(nproc_per_node: str) -> int:
    """Return the number of workers per machine. Raises ValueError for missing devices."""
    if nproc_per_node in ("auto", "cpu"):
        has_affinity = hasattr(os, "sched_getaffinity")
        return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    if nproc_per_node == "gpu":
        raise ValueError("Cuda is not available.")
    if nproc_per_node == "xpu":
        raise ValueError("Xpu is not available.")
    try:
        return int(nproc_per_node)
    except ValueError:
        raise ValueError(f"Unsupported nproc_per_node value: {nproc_per_node}") from None


def _limit_threads(workers: int) -> None:
    """Give each of several workers one thread, unless the user set OMP_NUM_THREADS."""
    if workers > 1 and "OMP_NUM_THREADS" not in os.environ:
        os.environ["OMP_NUM_THREADS"] = "1"
        stars = "*" * 41
        print(
            f"\n{stars}\nSetting OMP_NUM_THREADS environment variable for each process to be 1 in "
            "default, to avoid your system being overloaded, please further tune the variable for "
            f"optimal performance in your application as needed. \n{stars}",
            file=sys.stderr, flush=True,
        )


def config_from_args(args: Namespace) -> tuple[LaunchConfig, Callable[..., Any] | str, list[str]]:
    """Return the configuration, the workers' entry point, and its arguments."""
    min_nodes, max_nodes = parse_min_max_nnodes(args.nnodes)
    if not 0 < min_nodes <= max_nodes:
        raise AssertionError(
            "min_nodes must be > 0 and <= max_nodes, "
            f"got min_nodes={min_nodes}, max_nodes={max_nodes}"
        )
    if args.max_restarts < 0:
        raise AssertionError("max_restarts must be >= 0")
    workers = determine_local_world_size(args.nproc_per_node)
    _limit_threads(workers)
    config = LaunchConfig(
        min_nodes=min_nodes, max_nodes=max_nodes, nproc_per_node=workers, run_id=args.rdzv_id,
        role=args.role, rdzv_endpoint=get_rdzv_endpoint(args), rdzv_backend=args.rdzv_backend,
        rdzv_configs=_parse_rendezvous_options(args), max_restarts=args.max_restarts,
        monitor_interval=args.monitor_interval, start_method=args.start_method,
        log_line_prefix_template=os.environ.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"),
        local_addr=args.local_addr, logs_specs=_create_logs(args),
        event_log_handler=args.event_log_handler, signals_to_handle=args.signals_to_handle,
        duplicate_stdout_filters=args.duplicate_stdout_filters,
        duplicate_stderr_filters=args.duplicate_stderr_filters,
        virtual_local_rank=args.virtual_local_rank, shutdown_timeout=args.shutdown_timeout,
    )
    return config, *_build_command(args)


def get_rdzv_endpoint(args: Namespace) -> str:
    """Return the address where machines meet."""
    if args.rdzv_backend == "static" and not args.rdzv_endpoint:
        return f"{args.master_addr}:{args.master_port}"
    return str(args.rdzv_endpoint)


def _parse_rendezvous_options(args: Namespace) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for item in filter(None, map(str.strip, args.rdzv_conf.split(","))):
        key, separator, value = item.partition("=")
        if not separator or not value:
            raise ValueError(f"The rendezvous configuration option '{item}' must have format "
                             "<key>=<value>.")
        options[key.strip()] = int(value) if value.strip().lstrip("-").isdigit() else value.strip()
    if args.rdzv_backend == "static":
        options["rank"] = args.node_rank
    return options


def _create_logs(args: Namespace) -> DefaultLogsSpecs:
    shown = None
    if args.local_ranks_filter:
        try:
            shown = set(map(int, args.local_ranks_filter.split(",")))
        except ValueError as error:
            raise ValueError(
                "--local_ranks_filter must be a comma-separated list of integers e.g. "
                "--local_ranks_filter=0,1,2"
            ) from error
    return DefaultLogsSpecs(args.log_dir, Std.from_str(args.redirects), Std.from_str(args.tee),
                            shown)


def _build_command(args: Namespace) -> tuple[Callable[..., Any] | str, list[str]]:
    """Return the workers' command. If `torch` is flambeau here, it is in the workers too."""
    words: list[str] = []
    program: Callable[..., Any] | str = args.training_script
    if args.run_path:
        program, words = run_script_path, [args.training_script]
    elif not args.no_python:
        program = os.environ.get("PYTHON_EXEC", sys.executable)
        alias = ["-m", "flambeau"] if sys.modules.get("torch") is sys.modules["flambeau"] else []
        words = ["-u", *alias, *(["-m"] if args.module else []), args.training_script]
    elif args.module:
        raise ValueError("Don't use both the '--no-python' flag and the '--module' flag at the "
                         "same time.")
    if not getattr(args, "use_env", True):
        words.append(f"--local-rank={macros.local_rank}")
    return program, [*words, *args.training_script_args]


def run_script_path(training_script: str, *training_script_args: str) -> None:
    """Run a script in this process as its main program."""
    sys.argv = [training_script, *training_script_args]
    runpy.run_path(training_script, run_name="__main__")


def run(args: Namespace) -> None:
    """Run the workers and wait for them. Raises ChildFailedError if they fail."""
    local = parse_min_max_nnodes(args.nnodes)[1] == 1
    unsaid = args.rdzv_backend == "static" and not args.rdzv_endpoint and args.master_port is None
    if args.standalone or (local and unsaid):
        args.rdzv_backend, args.rdzv_endpoint = "c10d", "localhost:0"
        args.rdzv_id = str(uuid.uuid4())
    if args.master_port is None:
        args.master_port = _DEFAULT_PORT
    if args.logs_specs or args.numa_binding:
        warn("--logs-specs and --numa-binding have no effect in flambeau")
    config, program, words = config_from_args(args)
    elastic_launch(config, program)(*words)


@record
def main(args: list[str] | None = None) -> None:
    """Run the command line. If workers fail, print the report and exit with code 1."""
    try:
        run(parse_args(args))
    except ChildFailedError as error:
        if args is not None:  # called by a program
            raise
        print(error, file=sys.stderr)
        sys.exit(1)
    except SignalException as error:
        if args is not None:
            raise
        print(error, file=sys.stderr)
        sys.exit(128 + error.sigval)


if __name__ == "__main__":
    main()
