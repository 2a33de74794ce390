"""From a kernel to LLVM IR and object code: what each compile worker runs, without any cache."""

from __future__ import annotations

from ..foundation.source_hash import hash_sources
from ..loop_ir.ir import Kernel
from ..target.machine import Target, emit_object_code, external_functions, host

# Only the sources that emit machine code, so that other changes keep cached kernels valid.
_EMITTER_SOURCES = (
    "native/loop_ir", "native/target", "native/codegen", "native/jit/scratch_slots.py",
    "native/jit/object_code.py",
)


def hash_emitter() -> str | None:
    """Return a hash of the sources that determine a kernel's code; None if one is unreadable."""
    return hash_sources(*_EMITTER_SOURCES)


def emit_text(kernel: Kernel, name: str) -> str:
    """Return the LLVM IR of a kernel as a function `name` for this machine. Verifies it first."""
    from ..codegen.kernel import emit
    from ..loop_ir.verify import verify

    verify(kernel)
    return emit(kernel, name=name)


def compile_for(kernel: Kernel, name: str, target: Target) -> tuple[list[str], bytes]:
    """Return the external functions that a kernel's code calls, and its object code."""
    from ..codegen.kernel import emit
    from ..loop_ir.verify import verify

    verify(kernel)
    text = emit(kernel, target, name)
    return external_functions(text), emit_object_code(text, target)


def import_emitter() -> None:
    """Import the code generator ahead of time."""
    from ..codegen import kernel  # noqa: F401
    from ..loop_ir import verify  # noqa: F401

    host()
