"""Matrix products: blocking, packing, the micro-kernel and the macro-kernel around it."""
