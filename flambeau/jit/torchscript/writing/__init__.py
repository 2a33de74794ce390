"""Write TorchScript archives that PyTorch can read: classes, code, and pickled state.

archive.py writes the file; graph_code.py generates the code of a forward from a recorded graph,
source_code.py from Python source.
"""
