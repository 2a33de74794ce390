"""What a node saves for its derivative: the plan of a call, and the values with their check."""
