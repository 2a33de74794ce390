"""torch._export.passes: passes over exported graphs."""
