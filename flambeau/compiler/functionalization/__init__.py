"""Turn in-place writes and views into pure values; build the joint forward and backward graph."""
