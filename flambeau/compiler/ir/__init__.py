"""The graph IR: nodes, verifier, serialization, and the interpreter that defines its meaning."""
