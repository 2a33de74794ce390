"""Recording one call of a step: operators, writes, host reads and Python's side effects."""
