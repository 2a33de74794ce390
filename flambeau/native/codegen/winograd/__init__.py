"""3x3 convolutions by Winograd's algorithm F(2x2, 3x3), forward and weight gradient."""
