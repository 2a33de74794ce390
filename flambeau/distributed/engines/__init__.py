"""Engines: move and reduce the arrays of a group with Gloo or MPI, behind one interface."""
