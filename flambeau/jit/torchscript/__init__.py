"""TorchScript archives: their code is parsed, checked and run with only operators in scope.

archive.py reads a file, program.py looks up its classes and functions, translator.py turns a
function into Python that can reach only runtime.py and the operators.
"""
