"""`flambeau check SCRIPT`: lists the torch names that a program uses and flambeau lacks.

Nothing runs. The program's own modules are followed through their imports, and installed packages
with `--packages`. Names are resolved from the syntax tree: `import torch.nn as nn` followed by
`nn.Linear` uses torch.nn.Linear. Attributes of tensors are not resolved, since the source does
not show their types.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import torch_alias
from .torch_names import ProgramNames, TorchName, resolve

EXIT_OK, EXIT_MISSING, EXIT_USAGE = 0, 1, 2


def main(args: list[str]) -> int:
    """Run `flambeau check ARGS`; return 0 if nothing is missing, else 1."""
    parser = argparse.ArgumentParser(
        prog="flambeau check", description="List the torch names that a program uses and flambeau "
        "lacks. Nothing is run.")
    parser.add_argument("script", type=Path, help="a Python file, or a folder of them")
    parser.add_argument("--packages", action="store_true",
                        help="follow imports into installed packages too")
    options = parser.parse_args(args)
    files = _list_files(options.script)
    if not files:
        print(f"flambeau check: no Python file at {options.script}", file=sys.stderr)
        return EXIT_USAGE
    torch_alias.install()
    names = ProgramNames(follow_packages=options.packages)
    for file in files:
        names.read(file)
    return _report(names)


def _list_files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.is_file() else []


def _report(names: ProgramNames) -> int:
    """Print each missing name with the lines that use it."""
    for file, error in names.unreadable.items():
        print(f"{file}: {error}")
    missing: dict[str, tuple[str, list[TorchName]]] = {}
    for use in names.uses:
        reason = resolve(use.name)
        if reason is not None:
            missing.setdefault(use.name, (reason, []))[1].append(use)
    for name, (reason, uses) in sorted(missing.items()):
        first = uses[0]
        others = f" and {len(uses) - 1} more" if len(uses) > 1 else ""
        print(f"{first.file}:{first.line}{others}: {name}: {reason}")
    count = len({use.name for use in names.uses})
    files_read = "1 file" if len(names.files) == 1 else f"{len(names.files)} files"
    print(f"{count} torch names in {files_read}, {len(missing)} missing")
    return EXIT_MISSING if missing or names.unreadable else EXIT_OK
