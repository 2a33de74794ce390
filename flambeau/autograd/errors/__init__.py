"""Autograd's errors, with notes on which line cut, freed or overwrote the graph."""
