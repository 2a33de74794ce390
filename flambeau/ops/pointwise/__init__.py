"""Element by element: arithmetic, comparison, rounding, powers, trigonometry."""
