"""GlooLibrary: xoscar's compiled Gloo module and its functions.

Importing xoscar itself would load pandas and uvloop. Its binding holds the GIL while a collective
blocks, so the underlying functions are called by their exported C++ names.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.machinery
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .call_cxx import CxxError, build_caller

_CONTEXT = "ERKSt10shared_ptrIN4gloo7ContextEE"
_SYMBOLS = {  # mangled names of functions in xoscar 0.12
    "allreduce": f"_ZN6xoscar17allreduce_wrapper{_CONTEXT}llmNS_14glooDataType_tENS_8ReduceOpE"
    "NS1_6detail20AllreduceOptionsImpl9AlgorithmEj",
    "reduce": f"_ZN6xoscar14reduce_wrapper{_CONTEXT}llmNS_14glooDataType_tENS_8ReduceOpEij",
    "broadcast": f"_ZN6xoscar17broadcast_wrapper{_CONTEXT}llmNS_14glooDataType_tEij",
    "allgather": f"_ZN6xoscar17allgather_wrapper{_CONTEXT}llmNS_14glooDataType_tEj",
    "gather": f"_ZN6xoscar14gather_wrapper{_CONTEXT}llmNS_14glooDataType_tEij",
    "all_to_all": f"_ZN6xoscar18all_to_all_wrapper{_CONTEXT}llmNS_14glooDataType_tEj",
    "barrier": f"_ZN6xoscar7barrier{_CONTEXT}j",
    "send": f"_ZN6xoscar12send_wrapper{_CONTEXT}lmNS_14glooDataType_tEij",
    "recv": f"_ZN6xoscar12recv_wrapper{_CONTEXT}lmNS_14glooDataType_tEij",
}
_OBJECT_HEADER_BYTES = 16
_BASE_OFFSET_BYTES = 8  # of the gloo::Context base in gloo::rendezvous::Context, after the vtable


def find_module() -> Path | None:
    """Return the compiled module's file, or None if xoscar is not installed."""
    spec = importlib.util.find_spec("xoscar")
    for folder in (spec and spec.submodule_search_locations) or ():
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            path = Path(folder, "collective", f"xoscar_pygloo{suffix}")
            if path.exists():
                return path
    return None


class GlooLibrary:
    """Gloo's binding `module`, and `bind`, which makes its functions callable for a context."""

    def __init__(self, path: Path) -> None:
        loader = importlib.machinery.ExtensionFileLoader("xoscar_pygloo", str(path))
        spec = importlib.util.spec_from_loader("xoscar_pygloo", loader, origin=str(path))
        assert spec is not None
        self.module: Any = importlib.util.module_from_spec(spec)
        loader.exec_module(self.module)
        self._addresses: dict[str, int] = {}
        try:
            exported = ctypes.CDLL(str(path))
            for name, symbol in _SYMBOLS.items():
                address = ctypes.cast(getattr(exported, symbol), ctypes.c_void_p).value
                assert address is not None
                self._addresses[name] = address
            self._call = build_caller()
        except (AttributeError, OSError):  # a different version of xoscar or libstdc++
            self._addresses.clear()

    @property
    def releases_lock(self) -> bool:
        """Whether other Python threads run while a function blocks."""
        return bool(self._addresses)

    def bind(self, context: Any, name: str) -> Callable[..., None]:
        """Return a Gloo function bound to a context. It raises RuntimeError with Gloo's message.

        It releases the GIL while it blocks, unless the binding has an unexpected layout.
        """
        pointer = self._find_shared_pointer(context)
        if not self._addresses or pointer is None:
            return functools.partial(getattr(self.module, name), context)
        call, address = self._call, self._addresses[name]
        pointer_address = ctypes.addressof(pointer)

        def function(*arguments: Any, _alive: Any = (context, pointer)) -> None:
            try:
                call(address, pointer_address, *map(int, arguments))
            except CxxError as error:
                raise RuntimeError(str(error)) from None

        return function

    @staticmethod
    def _find_shared_pointer(context: Any) -> Any:
        """Return a context's std::shared_ptr<gloo::Context>, or None for an unexpected layout.

        The binding's object holds the value's address, then a shared pointer: address, owner.
        """
        words = (ctypes.c_int64 * 3).from_address(id(context) + _OBJECT_HEADER_BYTES)
        if words[0] != words[1] or not words[0]:
            return None
        base = words[1] + _BASE_OFFSET_BYTES
        members = (ctypes.c_int32 * 2).from_address(base)  # gloo::Context begins with rank and size
        if (members[0], members[1]) != (context.rank, context.size):
            return None
        return (ctypes.c_int64 * 2)(base, words[2])


@functools.cache
def load_gloo() -> GlooLibrary:
    """Load the library. Raises ModuleNotFoundError naming the pip extra if it is missing."""
    path = find_module()
    if path is None:
        raise ModuleNotFoundError(
            "torch.distributed with backend='gloo' and more than one process needs Gloo: "
            "pip install 'flambeau[gloo]'", name="xoscar",
        )
    return GlooLibrary(path)
