"""Routes from operators on large arrays to native kernels, shared by several families."""
