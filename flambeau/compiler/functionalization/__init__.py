"""In-place writes and views as pure values; the joint forward and backward graph."""
