"""Arguments of operators before they run: those that are refused, and those in an old order."""
