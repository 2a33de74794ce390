"""Loop IR to LLVM IR: statements, expressions, reductions, vectorization and prefetch."""
