"""`flambeau explain ID`: describe a check of the doctor; without an id, list all checks."""

from __future__ import annotations

import sys


def main(args: list[str]) -> int:
    """Run `flambeau explain`; returns the exit code."""
    from ..doctor.explain import explain
    from ..doctor.rules import all_rules

    if len(args) > 1:
        print("usage: flambeau explain [ID]", file=sys.stderr)
        return 2
    if not args:
        width = max(map(len, all_rules()))
        for id, rule in all_rules().items():
            print(f"{id:<{width}}  {rule.title}")
        return 0
    try:
        print(explain(args[0]))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0
