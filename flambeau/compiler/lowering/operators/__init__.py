"""Hand-written lowerings, for operators whose traced body would be a poor graph."""
