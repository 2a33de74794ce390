"""When to record, build, check, use and drop a program."""
