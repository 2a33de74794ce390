"""The command `flambeau`: runs a PyTorch program on flambeau, as `python` would run it."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import runpy
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType, TracebackType
from typing import Any, NoReturn

from .. import version
from ..native.foundation import tracebacks
from . import compile_models, interpreter_options, torch_alias

SUMMARY = """\
flambeau SCRIPT [ARGS]   run a PyTorch program: in it, `import torch` means flambeau
flambeau -m MODULE       the same for a module, as `python -m` runs it
flambeau -c CODE         the same for a line of code
flambeau -               the same for a program on standard input
flambeau alias install   `import torch` means flambeau in every program of this environment
flambeau check SCRIPT    list the torch names that a program uses and flambeau lacks; run nothing
flambeau env             versions, processor, caches and settings, for a bug report
flambeau cache [clear]   where compiled code is stored and how much; delete it
flambeau explain ID      what a check of the doctor looks for
flambeau --version       the version, and the version of PyTorch that it behaves like
flambeau --help          this
flambeau --doctor PROGRAM    watch the training and name its mistakes (--doctor=strict, =check)
flambeau --compile PROGRAM   compile each model that the program calls (see torch.compile)
flambeau --profile PROGRAM   show where its time goes: a table, and profile.html (--profile=PAGE)
Python's options come before the program: -u, -W ARG, -O, -X OPT, -B, -E, -I, -s, -i, ...
The program needs no change, and PyTorch need not be installed. Arguments after the
program are the program's. In new code, `import flambeau as torch` does the same
without this command. What flambeau lacks raises NotImplementedError or
ModuleNotFoundError and says so."""

# A subcommand is a module with `main(args) -> exit code`, imported on demand.
SUBCOMMANDS = {
    "alias": "alias",
    "cache": "cache",
    "check": "check",
    "env": "environment_report",
    "explain": "explain",
}
_OWN_FILE = __file__
_BROKEN_PIPE_CODE = 141  # a shell's exit code for a program ended by SIGPIPE
# What `python -m` calls; the public run_module puts the old `__main__` back when it is done.
_run_module = runpy._run_module_as_main  # type: ignore[attr-defined]
_replaced: ModuleType | None = None  # the `__main__` before the program's
_around: AbstractContextManager[Any] | None = None  # contexts around the program


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns its exit code, or leaves by the program's own exit."""
    args = sys.argv[1:] if argv is None else list(argv)
    if not args or args[0] in ("--help", "-h"):
        print(SUMMARY)
        return 0
    if args[0] in ("--version", "-V"):
        print(f"flambeau {version._flambeau_version} (PyTorch {torch_alias.TORCH_VERSION})")
        return 0
    if args[0] in SUBCOMMANDS:
        return _run_subcommand(args)
    if args[0] == "--compile":
        compile_models.start()
        args = args[1:]
    if args and args[0].startswith("--doctor"):
        return _run_watched(args)
    if args and args[0].startswith("--profile"):
        return _run_under_profiler(args)
    try:
        line = interpreter_options.split(args)
    except interpreter_options.OptionError as error:
        print(f"{error}\nTry `flambeau --help' for more information.", file=sys.stderr)
        return 2
    if line.options or not line.program:
        return interpreter_options.restart(line)
    return _run_program(line.program)


def _run_subcommand(args: list[str]) -> int:
    """Run a subcommand. It ends quietly if a reader such as `head` stops reading its output."""
    subcommand = importlib.import_module(f".{SUBCOMMANDS[args[0]]}", __package__)
    try:
        code = int(subcommand.main(args[1:]))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return _BROKEN_PIPE_CODE


def _run_watched(args: list[str]) -> int:
    """Run a program under the doctor."""
    from ..doctor import command

    try:
        options, program = command.parse(args)
        line = interpreter_options.split(program)
        if options is None or line.options or not line.program:
            raise ValueError("Python's options do not go with --doctor"
                             if line.options else "--doctor needs a program")
        watched = command.Watched(options)
    except (ValueError, interpreter_options.OptionError) as error:
        print(f"{error}\n\n{command.USAGE}", file=sys.stderr)
        return 2
    global _around
    _around = watched
    return _run_program(line.program) or watched.code


def _run_under_profiler(args: list[str]) -> int:
    """Run a program under the profiler."""
    from . import profile_program

    try:
        profiled = profile_program.parse(args[0])
        line = interpreter_options.split(args[1:])
        if line.options or not line.program:
            raise ValueError("Python's options do not go with --profile"
                             if line.options else "--profile needs a program")
    except (ValueError, interpreter_options.OptionError) as error:
        print(f"{error}\nTry `flambeau --help' for more information.", file=sys.stderr)
        return 2
    global _around
    _around = profiled
    return _run_program(line.program)


def leave(code: int) -> None:
    """End the process, unless `python -i` goes on to a prompt in the program's namespace."""
    if not sys.flags.inspect:
        sys.exit(code)


def _run_program(args: list[str]) -> int:
    if args[0] in ("-m", "-c") and len(args) == 1:
        print(f"Argument expected for the {args[0]} option", file=sys.stderr)
        return 2
    torch_alias.install()
    if args[0] == "-m":
        return _run(lambda: _module(args[1], args[2:]))
    if args[0] == "-c":
        return _run(lambda: _code(args[1], args[2:]))
    if args[0] == "-":
        return _run(lambda: _stdin(args[1:]))
    return _run_script(args[0], args[1:])


# ------------------------------------------------------------------- kinds of programs


def _create_main(**attributes: Any) -> ModuleType:
    """A new `__main__`, as a Python process has it before its program runs."""
    module = ModuleType("__main__")
    module.__dict__.update(
        {"__builtins__": sys.modules["builtins"], "__annotations__": {}, **attributes}
    )
    # The module of this command must live on: its functions are still running.
    global _replaced
    _replaced = sys.modules.get("__main__")
    sys.modules["__main__"] = module
    return module


def _set_arguments(first: str, arguments: list[str], directory: str) -> None:
    sys.argv[:] = [first, *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = directory


def _run_script(path: str, arguments: list[str]) -> int:
    if os.path.isdir(path) or _is_zip(path):
        return _run(lambda: _run_directory(path, arguments))
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        location = os.path.abspath(path)
        print(
            f"flambeau: can't open file {location!r}: [Errno {error.errno}] {error.strerror}",
            file=sys.stderr,
        )
        return 2

    def program() -> None:
        file = os.path.abspath(path)
        loader = importlib.machinery.SourceFileLoader("__main__", file)
        main_module = _create_main(__file__=file, __cached__=None, __loader__=loader)
        _set_arguments(path, arguments, os.path.dirname(os.path.realpath(path)))
        _execute(source, file, main_module)

    return _run(program)


def _is_zip(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"PK\3\4"
    except OSError:
        return False


def _run_directory(path: str, arguments: list[str]) -> None:
    """Run the `__main__.py` of a directory or zip file."""
    _create_main()
    sys.argv[:] = [path, *arguments]
    sys.path[: 0 if sys.flags.safe_path else 1] = [os.path.abspath(path)]
    _run_module("__main__", alter_argv=False)


def _module(name: str, arguments: list[str]) -> None:
    _create_main()
    _set_arguments("-m", arguments, os.getcwd())
    _run_module(name)


def _code(source: str, arguments: list[str]) -> None:
    main_module = _create_main(__loader__=importlib.machinery.BuiltinImporter)
    _set_arguments("-c", arguments, "")
    _execute(source.encode() + b"\n", "<string>", main_module)


def _stdin(arguments: list[str]) -> None:
    main_module = _create_main(__loader__=importlib.machinery.BuiltinImporter)
    _set_arguments("-", arguments, "")
    _execute(sys.stdin.buffer.read(), "<stdin>", main_module)


def _execute(source: bytes, filename: str, module: ModuleType) -> None:
    if source[:4] == importlib.util.MAGIC_NUMBER:
        loader = importlib.machinery.SourcelessFileLoader("__main__", filename)
        code = loader.get_code("__main__")
        assert code is not None  # what cannot be read raises
    else:
        code = compile(source, filename, "exec", dont_inherit=True)
    exec(code, module.__dict__)


# ---------------------------------------------------------------------- how they end


def _run(program: Callable[[], None]) -> int:
    """Run the program; its exceptions end the process as they would end `python`."""
    if "TORCHELASTIC_ERROR_FILE" in os.environ:  # a worker of torchrun, which wants to know why
        from ..distributed.elastic.multiprocessing.errors import record_uncaught

        record_uncaught()
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = tracebacks.excepthook
    try:
        with _around or nullcontext():
            program()
    except SystemExit as error:
        if not sys.flags.inspect:
            raise  # the interpreter handles it without showing frames
        _report(error)
    except BaseException as error:
        _report(error)
        if isinstance(error, KeyboardInterrupt):
            _exit_on_interrupt(error)
        return 1
    return 0


def _strip_runner(frames: TracebackType | None) -> TracebackType | None:
    """A traceback that begins with the program's own first frame."""
    while frames is not None and frames.tb_frame.f_code.co_filename == _OWN_FILE:
        frames = frames.tb_next
    return frames


def _report(error: BaseException) -> None:
    """Show an exception through `sys.excepthook`, without the frames of this command."""
    frames = _strip_runner(error.__traceback__)
    error = error.with_traceback(frames)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, frames
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    try:
        sys.excepthook(type(error), error, frames)
    except SystemExit:
        raise
    except BaseException as second:
        print("Error in sys.excepthook:", file=sys.stderr)
        traceback.print_exception(second.with_traceback(_strip_runner(second.__traceback__)))
        print("\nOriginal exception was:", file=sys.stderr)
        traceback.print_exception(error)


def _exit_on_interrupt(error: KeyboardInterrupt) -> NoReturn:
    # The interpreter ends itself by the signal, so that a shell sees why. The traceback was shown.
    sys.excepthook = lambda *shown: None
    raise error
