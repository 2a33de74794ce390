"""Snapshots of what the library reads of modules, tensors and other objects, compared by guards."""
