"""`flambeau cache`: show where compiled code is stored and its size, or delete it."""

from __future__ import annotations

import sys

from ..native.foundation import disk_cache

USAGE = """\
flambeau cache         print the folder, its size and its limit
flambeau cache size    print the size in bytes
flambeau cache clear   delete all entries; programs compile again on their next run"""


def main(args: list[str]) -> int:
    """Run `flambeau cache ARGS`; returns the exit code."""
    action = args[0] if args else ""
    if len(args) > 1 or action not in ("", "size", "clear"):
        asks_for_help = action in ("-h", "--help")
        print(USAGE, file=sys.stdout if asks_for_help else sys.stderr)
        return 0 if asks_for_help else 2
    if action == "size":
        print(disk_cache.size_bytes())
    elif action == "clear":
        print(f"freed {disk_cache.clear() / 2**20:.1f} MB in {disk_cache.directory()}")
    else:
        print(format_summary())
    return 0


def format_summary() -> str:
    """The folder, the size of its entries and the limit, on one line."""
    folder = disk_cache.directory()
    if folder is None or disk_cache.limit_bytes() <= 0:
        return "off"
    used_mb, limit_mb = disk_cache.size_bytes() / 2**20, disk_cache.limit_bytes() / 2**20
    return f"{folder} ({used_mb:.1f} of {limit_mb:.0f} MB)"
