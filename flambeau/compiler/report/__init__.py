"""What the user sees of a compiled step: explain(), its figures and its page."""
