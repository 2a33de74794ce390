"""The emitter: loop IR kernels to LLVM IR text. Imported only when code is compiled."""
