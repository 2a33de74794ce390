"""Symbolic numbers of a trace: expressions over symbols, sizes, conditions, numbers in tensors."""
