"""Write TorchScript archives that PyTorch can read: classes, code, and pickled state.

archive.py writes the file; graph_code.py and source_code.py generate the code of a forward from a
recorded graph or from its source.
"""
