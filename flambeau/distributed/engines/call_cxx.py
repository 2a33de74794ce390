"""Call a C++ function without the GIL and return its exception as text.

Calling by address runs no Python while the function blocks. ctypes alone cannot catch C++
exceptions, so a few lines of LLVM IR do.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

MAX_ARGUMENTS = 9
_MESSAGE_BYTES = 4096

# Calls %function with nine integers; under the C calling conventions of x86-64 and AArch64 a
# function ignores extra ones. It may throw a std::exception, whose what() is the third virtual
# method.
_IR = """
declare i32 @__gxx_personality_v0(...)
declare ptr @__cxa_begin_catch(ptr)
declare void @__cxa_end_catch()
declare ptr @strncpy(ptr, ptr, i64)

define i32 @call_catching(ptr %function, ptr %arguments, ptr %message, i64 %capacity)
    personality ptr @__gxx_personality_v0 {{
{loads}
  invoke void %function({values}) to label %returned unwind label %thrown
returned:
  ret i32 0
thrown:
  %pad = landingpad {{ ptr, i32 }} catch ptr null
  %header = extractvalue {{ ptr, i32 }} %pad, 0
  %exception = call ptr @__cxa_begin_catch(ptr %header)
  %methods = load ptr, ptr %exception
  %slot = getelementptr ptr, ptr %methods, i64 2
  %what = load ptr, ptr %slot
  %text = call ptr %what(ptr %exception)
  %copied = call ptr @strncpy(ptr %message, ptr %text, i64 %capacity)
  call void @__cxa_end_catch()
  ret i32 1
}}
"""


class CxxError(Exception):
    """The what() text of a C++ exception."""


def _write_program() -> str:
    indices = range(MAX_ARGUMENTS)
    loads = "\n".join(
        f"  %p{k} = getelementptr i64, ptr %arguments, i64 {k}\n  %a{k} = load i64, ptr %p{k}"
        for k in indices
    )
    return _IR.format(loads=loads, values=", ".join(f"i64 %a{k}" for k in indices))


def build_caller() -> Callable[..., None]:
    """Return `call(address, *integers)` that raises CxxError. Raises OSError without libstdc++."""
    from llvmlite import binding

    standard_library = ctypes.CDLL("libstdc++.so.6")
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    for name in ("__gxx_personality_v0", "__cxa_begin_catch", "__cxa_end_catch"):
        address = ctypes.cast(getattr(standard_library, name), ctypes.c_void_p).value
        binding.add_symbol(name, address)
    # MCJIT registers unwind tables; without them an exception would terminate the process.
    machine = binding.Target.from_default_triple().create_target_machine()
    jit = binding.create_mcjit_compiler(binding.parse_assembly(_write_program()), machine)
    jit.finalize_object()
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64
    )
    catching = kind(jit.get_function_address("call_catching"))
    integers = ctypes.c_int64 * MAX_ARGUMENTS

    messages = threading.local()  # calls block, so each thread needs a buffer

    def call(address: int, *arguments: int, _jit: object = jit) -> None:
        try:
            message = messages.buffer
        except AttributeError:
            message = messages.buffer = ctypes.create_string_buffer(_MESSAGE_BYTES)
        values = integers(*arguments)
        if catching(address, ctypes.addressof(values), message, _MESSAGE_BYTES - 1):
            raise CxxError(message.value.decode(errors="replace"))

    return call
