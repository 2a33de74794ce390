"""The state of a run: numbers of an epoch, random state, snapshots."""
