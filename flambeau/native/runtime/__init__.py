"""Running machine code: thread pool, launch tables, fast calls and background compilation."""
