"""Progress, curves, timers and the record of an experiment."""
