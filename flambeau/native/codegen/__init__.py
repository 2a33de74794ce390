"""The emitter: a kernel of the loop IR as LLVM IR text. Imported only when code is made."""
