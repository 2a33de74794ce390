"""TorchScript archives: parse and check their code, and run it with only operators in scope.

archive.py reads a file, program.py looks up its classes and functions, translator.py turns a
function into Python that can access only runtime.py and the operators.
"""
