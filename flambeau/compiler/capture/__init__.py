"""Record one call of a step: operators, writes, host reads and Python side effects."""
