"""Writing TorchScript archives that PyTorch reads: classes, code, and the pickle of their state.

archive.py writes the file; graph_code.py and source_code.py give the code of a forward, out of a
recorded graph or out of its source.
"""
