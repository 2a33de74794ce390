"""Passes over graphs of scripted programs: each is a function that changes a graph in place."""
