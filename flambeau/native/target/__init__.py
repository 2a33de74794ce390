"""The machine: instruction set, registers, caches, and how work is split among its threads."""
