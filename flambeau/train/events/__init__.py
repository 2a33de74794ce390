"""Events of a run and everything that listens to them."""
