"""Schedulers: how the level of sparsity changes from epoch to epoch."""
