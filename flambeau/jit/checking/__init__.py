"""What `torch.jit.script` refuses: syntax, names and types, found before anything runs.

types.py is the lattice, diagnostics.py the messages, source.py the text that they point at.
syntax.py checks what a tree contains; literals.py, operators.py, conditions.py, calls.py,
assignments.py and statements.py give types to it; program.py checks functions, modules and
what they call.
A part whose type is not known has the type UNKNOWN, and nothing is reported about it.
"""
