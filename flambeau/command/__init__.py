"""The command line: `flambeau script.py`, and `import torch` that means flambeau."""
