"""LLVM IR below the loop IR: builder, casts, intrinsics and masked memory access."""
