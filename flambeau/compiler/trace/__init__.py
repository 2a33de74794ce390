"""A recorded call as data: the trace, its bindings, and the signature used to compare calls."""
