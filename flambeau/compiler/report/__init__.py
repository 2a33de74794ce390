"""Reports on a compiled step: explain(), its figures and its HTML page."""
