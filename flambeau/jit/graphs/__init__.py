"""Scripted programs as graphs of TorchScript's nodes: to look at and to print, not to run."""
