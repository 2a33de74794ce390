"""`flambeau --doctor ...`: parse the options, and run a program under a session."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from . import report
from .doctor import Doctor
from .finding import Level, Mistake
from .observers.updates import StopWatching

USAGE = """\
flambeau --doctor SCRIPT [ARGS]           watch the training: mistakes are told on standard error
  --doctor=strict    the first certain mistake ends the program; exit code 3
  --doctor=check     stop after 8 updates; exit code 3 where a mistake is certain
  --json FILE  --html FILE                write the findings as JSON, as a page
  --doctor-off=ID,ID                      leave checks out
flambeau explain ID                       what a check looks for, with a program"""
FAILED = 3  # exit code if a mistake is certain
_STEPS = 8  # optimizer updates before --doctor=check stops


@dataclass
class Options:
    """The parsed command-line options."""

    mode: str = ""  # "", "strict" or "check"
    json: str | None = None
    html: str | None = None
    off: list[str] = field(default_factory=list)


def parse(args: list[str]) -> tuple[Options | None, list[str]]:
    """Parse the doctor's options, which precede the program on the command line.

    Return the options and the remaining arguments; None and all arguments without `--doctor`.
    Raise ValueError for an unknown mode or a missing value.
    """
    if not args or not args[0].startswith("--doctor"):
        return None, args
    options, rest = Options(), list(args)
    while rest and rest[0].startswith("--"):
        name, equals, value = rest[0].partition("=")
        if name not in ("--doctor", "--doctor-off", "--json", "--html"):
            break
        rest.pop(0)
        if name == "--doctor":
            if value not in ("", "strict", "check"):
                raise ValueError(f"--doctor={value}: strict or check")
            options.mode = value
            continue
        if not equals:
            if not rest:
                raise ValueError(f"{name} needs a value")
            value = rest.pop(0)
        if name == "--doctor-off":
            options.off += [id for id in value.split(",") if id]
        else:
            setattr(options, name[2:], value)
    return options, rest


class Watched:
    """Context that runs a command-line program under a doctor."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.doctor = Doctor(
            off=[*options.off, *read_ignored()], strict=options.mode == "strict",
            steps=_STEPS if options.mode == "check" else None,
        )

    def __enter__(self) -> Watched:
        self.doctor.__enter__()
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None,
                 trace: object) -> bool:
        """Write the requested reports; suppress the exceptions by which the doctor stops."""
        is_stopped = isinstance(error, (StopWatching, Mistake))
        self.doctor.session.stop(None if is_stopped or isinstance(error, SystemExit) else error)
        if self.options.json:
            self.doctor.json(self.options.json)
        if self.options.html:
            self.doctor.html(self.options.html)
        print(f"\n{report.format_summary(self.doctor.session)}", file=sys.stderr)
        return is_stopped

    @property
    def code(self) -> int:
        """The exit code: 3 for certain mistakes in the modes strict and check, else 0."""
        certain = any(f.level is Level.CERTAIN for f in self.doctor.findings)
        return FAILED if self.options.mode and certain else 0


def read_ignored(directory: Path | None = None) -> list[str]:
    """Return `[tool.flambeau.doctor] ignore` from the nearest pyproject.toml."""
    import tomllib

    start = directory or Path.cwd()
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            try:
                table = tomllib.loads(file.read_text(encoding="utf-8"))
            except (tomllib.TOMLDecodeError, OSError):
                return []
            return list(table.get("tool", {}).get("flambeau", {}).get("doctor", {})
                        .get("ignore", []))
    return []
