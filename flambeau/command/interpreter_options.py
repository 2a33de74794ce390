"""Python's own options before the program: `flambeau -u -W error script.py`.

The interpreter reads them at its start, and `sys.flags` cannot be changed later, so the command
starts a second interpreter with them (30 ms and another import of flambeau). `-m`, `-c` and `-`
say where the program is and need no second start.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

# Letters of `python --help` that stand alone, and those that take an argument.
_FLAGS = frozenset("bBdEiIOPqRsSuv")
_WITH_ARGUMENT = frozenset("WX")
_LONG_WITH_ARGUMENT = ("--check-hash-based-pycs",)
# Run by the second interpreter: imports this flambeau, even if the options (-E, -I, -s) hide its
# location.
_RESTART = """\
import sys
sys.path.insert(0, sys.argv[1])
from flambeau.command import cli
del sys.path[0], sys.argv[1]
cli.leave(cli.main())
"""


class OptionError(Exception):
    """An option that Python does not have or that lacks its argument; the text says which."""


class CommandLine(NamedTuple):
    """The interpreter's options, unchanged, and the program with its arguments."""

    options: list[str]
    program: list[str]


def split(args: list[str]) -> CommandLine:
    """Separate Python's options from the program: `-m`, `-c`, `-` or a file, and the rest.

    Letters may be joined as in Python (`-uB`, `-Werror`, `-um module`). Raises OptionError.
    """
    options: list[str] = []
    arguments = list(args)
    while arguments and arguments[0].startswith("-") and arguments[0] != "-":
        option = arguments.pop(0)
        if option.startswith("--"):
            if option == "--":
                break
            if option not in _LONG_WITH_ARGUMENT:
                raise OptionError(f"unknown option {option}")
            options += [option, _take_argument(option, arguments)]
            continue
        for position, letter in enumerate(option[1:], 1):
            following = option[position + 1 :]
            if letter in "mc":
                code = [following] if following else []
                return CommandLine(options, [f"-{letter}", *code, *arguments])
            if letter in _WITH_ARGUMENT:
                options += [f"-{letter}", following or _take_argument(f"-{letter}", arguments)]
                break
            if letter not in _FLAGS:
                raise OptionError(f"unknown option -{letter}")
            options.append(f"-{letter}")
    return CommandLine(options, arguments)


def _take_argument(option: str, arguments: list[str]) -> str:
    if not arguments:
        raise OptionError(f"Argument expected for the {option} option")
    return arguments.pop(0)


def restart(line: CommandLine) -> int:
    """Replace this process by an interpreter that has the options and runs the program.

    Without a program Python reads standard input, or starts a prompt.
    """
    options, program = line
    if not program and sys.stdin.isatty():
        options, program = [*options, "-i"], ["-c", ""]
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    command = [sys.executable, *options, "-c", _RESTART, root, *(program or ["-"])]
    if os.name == "nt":  # on Windows exec returns control to the shell at once
        return subprocess.call(command)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, command)
