"""From groups of nodes to kernels in the loop IR: loops, contractions, and the rest."""
