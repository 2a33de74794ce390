"""The emitter: kernels of the loop IR become LLVM IR. Imported only when code is made."""
