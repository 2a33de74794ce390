"""TorchScript archives: their code is parsed, checked and run with operators alone in scope.

archive.py reads a file, program.py looks its classes and functions up, translator.py turns one
function into Python that reaches nothing but runtime.py and the operators.
"""
