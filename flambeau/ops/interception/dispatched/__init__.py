"""Reads and writes of elements, as calls of the operators that `__torch_dispatch__` receives."""
