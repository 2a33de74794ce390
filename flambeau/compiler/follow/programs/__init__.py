"""Programs of a segment's first events: for one set of lengths, or for all lengths."""
