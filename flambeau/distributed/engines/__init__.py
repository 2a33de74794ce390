"""Engines: what moves and reduces the arrays of a group, Gloo or MPI, each behind one interface."""
