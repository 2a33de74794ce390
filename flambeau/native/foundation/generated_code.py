"""Generated code: its source is known to tracebacks, pdb and inspect, as that of a file is."""

from __future__ import annotations

import linecache
from typing import Any


def define(source: str, file: str, names: dict[str, Any]) -> None:
    """Runs generated source in the namespace `names`, as a file that is called `<flambeau ...>`.

    The name marks it as flambeau's; a second source of that name takes the first one's place.
    """
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), names)
