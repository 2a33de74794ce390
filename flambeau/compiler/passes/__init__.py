"""The passes: functions from graph to graph, each in its own file; pipeline.py has their order."""
