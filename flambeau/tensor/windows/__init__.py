"""What stands in the place of an array: windows that are no dense memory, or not yet computed."""
