"""Generated parts of an operator's `help()`, besides its own text: arguments, results, errors."""
