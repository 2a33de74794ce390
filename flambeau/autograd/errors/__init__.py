"""What autograd raises, and the notes that say which line cut, freed or overwrote the graph."""
