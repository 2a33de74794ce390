"""Passes: functions from graph to graph, one per file; pipeline.py defines their order."""
