"""torch.utils.flop_counter: count the floating-point operations of a piece of code.

While a FlopCounterMode is active, the operators that implement matrix products and convolutions are
replaced by counting versions (as in the compiler's capture). As in PyTorch on a CPU, fused
attention and recurrent layers count as zero.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from math import prod
from typing import Any

from ..compiler.capture.patch_targets import swaps_of
from ..native.foundation.user_frames import warn
from ..nn.modules.module import (
    Module,
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from ..ops.core.aten import aten
from ..ops.core.operator import OPERATORS
from ..ops.interception.code_patching import Swap
from ..tensor.absent import make_absent_getattr
from ..tensor.tensor import Tensor

__all__ = ["FlopCounterMode"]

__getattr__ = make_absent_getattr(__name__, ("register_flop_formula", "flop_registry"))

# (aten name, FLOPs) of a call, from the shapes of its inputs and result; None if not counted.
Count = tuple[str, int] | None


def _matmul(shapes: list[tuple[int, ...]], y: tuple[int, ...]) -> Count:
    a, b = shapes[:2]
    if len(a) < 2 or len(b) < 2:
        return None
    return ("mm" if len(b) == 2 else "bmm"), 2 * prod(y) * a[-1]


def _linear(shapes: list[tuple[int, ...]], y: tuple[int, ...]) -> Count:
    if len(shapes[0]) < 2:
        return None
    return ("mm" if len(shapes) == 2 else "addmm"), 2 * prod(y) * shapes[0][-1]


def _rows_product(shapes: list[tuple[int, ...]], y: tuple[int, ...]) -> Count:
    return "mm", 2 * prod(shapes[0]) * shapes[1][-1]


def _product_added(name: str) -> Callable[[list[tuple[int, ...]], tuple[int, ...]], Count]:
    return lambda shapes, y: (name, 2 * prod(y) * shapes[1][-1])


def _convolution(shapes: list[tuple[int, ...]], y: tuple[int, ...]) -> Count:
    return "convolution", 2 * y[0] * prod(y[2:]) * prod(shapes[1])


def _transposed(shapes: list[tuple[int, ...]], y: tuple[int, ...]) -> Count:
    return "convolution", 2 * y[0] * prod(shapes[0][2:]) * prod(shapes[1])


def _weight(shapes: list[tuple[int, ...]], y: tuple[int, ...]) -> Count:
    return "convolution", 2 * shapes[1][0] * prod(shapes[1][2:]) * prod(y)


_COUNTS: dict[str, Callable[[list[tuple[int, ...]], tuple[int, ...]], Count]] = {
    "matmul": _matmul, "linear": _linear, "_rows_product": _rows_product,
    "addmm": _product_added("addmm"), "baddbmm": _product_added("baddbmm"),
    "_convolution": _convolution, "_transposed_convolution": _transposed,
    "_convolution_weight": _weight,
}


class FlopCounterMode:
    """A context that counts FLOPs; it prints a table at the end.

    Modules are listed by their names below the outermost called module, to `depth` levels in the
    table. `mods` is not needed, as in PyTorch.

    >>> from flambeau.utils.flop_counter import FlopCounterMode
    >>> counter = FlopCounterMode(display=False)
    >>> with counter:
    ...     y = torch.nn.Linear(5, 6)(torch.ones(4, 5))
    >>> counter.get_total_flops()
    240
    """

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        if custom_mapping:
            raise NotImplementedError("FlopCounterMode(custom_mapping=...) is not implemented in "
                                      "flambeau")
        if mods is not None:
            warn("mods argument is not needed anymore, you can stop passing it")
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[Any, int]] = {}
        self._swaps: list[Swap] = []
        self._hooks: list[Any] = []
        self._inside = False
        self._stack: list[tuple[Module, str]] = []
        self._places: dict[int, tuple[str, ...]] = {}

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts = defaultdict(lambda: defaultdict(int), {"Global": defaultdict(int)})
        self._places.clear()
        self._hooks = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        chosen = [OPERATORS[name] for name in _COUNTS]
        self._swaps = swaps_of(chosen, self._build_recorder)
        product: Any = Tensor.__matmul__  # has a separate fast path
        self._swaps.append(Swap(product, self._build_recorder(OPERATORS["matmul"])))
        self._swaps[-1].start()
        return self

    def __exit__(self, *exception: object) -> None:
        for swap in reversed(self._swaps):
            swap.restore()
        for hook in self._hooks:
            hook.remove()
        self._stack.clear()
        if self.display:
            print(self.get_table(self.depth))

    def get_total_flops(self) -> int:
        """Return the total FLOPs."""
        return sum(self.flop_counts.get("Global", {}).values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Return FLOPs by module name ("Global": all) and operator (`torch.ops.aten.mm`)."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Format the counts as a table: modules to `depth` levels, and their operators."""
        depth = 999999 if depth is None else depth
        total = self.get_total_flops()
        names = [n for n in sorted(self.flop_counts) if n != "Global" and n.count(".") < depth]
        total_counts = self.flop_counts.get("Global", {})
        listed = ["Global", *names] if all(
            sum(self.flop_counts[n].values()) != total for n in names) else names
        rows = []
        for name in listed:
            counts = self.flop_counts[name] if name != "Global" else total_counts
            indent = " " * (name.count(".") + ("Global" in listed and name != "Global"))
            rows.append((indent + name, _short(sum(counts.values()), total),
                         _share(sum(counts.values()), total)))
            rows += [(f"{indent} - {op}", _short(n, total), _share(n, total))
                     for op, n in counts.items()]
        return _format_table([("Module", "FLOP", "% Total"), *(rows or [("Global", "0", "0%")])])

    # ------------------------------------------------------------------- while active

    def _enter(self, module: Module, args: Any) -> None:
        name = type(module).__name__
        if self._stack:
            parent, path = self._stack[-1]
            inner = [n for n, m in parent.named_modules() if m is module]
            name = f"{path}.{inner[0]}" if inner else name
        self._stack.append((module, name))

    def _leave(self, module: Module, args: Any, y: Any) -> None:
        if self._stack and self._stack[-1][0] is module:
            self._stack.pop()

    def _build_recorder(self, operator: Any) -> Callable:
        count = _COUNTS[operator.name]

        def record(original: Callable, args: tuple, kwargs: dict) -> Any:
            if self._inside:
                return original(*args, **kwargs)
            self._inside = True
            try:
                y = original(*args, **kwargs)
            finally:
                self._inside = False
            if isinstance(y, Tensor):
                tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
                self._add(count([tuple(t.shape) for t in tensors], tuple(y.shape)), y)
            return y

        return record

    def _add(self, result: Count, y: Tensor) -> None:
        node = _find_running_node()
        if node is None:
            module_paths = tuple(name for _, name in self._stack)
            if y._node is not None:
                self._places[id(y._node)] = module_paths
        else:
            module_paths = self._places.get(id(node), ())
        if result is None:
            return
        name = result[0]
        if name == "convolution" and node is not None:
            name = "convolution_backward"
        for path in {*module_paths, "Global"}:
            self.flop_counts[path][getattr(aten, name)] += result[1]


def _find_running_node() -> Any:
    """Return the autograd node that backward is running, if called from backward."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith(("autograd/engine.py", "autograd\\engine.py")):
            node = frame.f_locals.get("node")
            if node is not None:
                return node
        frame = frame.f_back
    return None


# --------------------------------------------------------------------------------- as text

_SUFFIXES = ("", "K", "M", "B", "T")


def _short(count: int, total: int) -> str:
    """Format a number with the suffix that fits the total."""
    index = max(0, min(len(_SUFFIXES) - 1, (len(str(total)) - 2) // 3))
    return f"{count / 1000**index:.3f}{_SUFFIXES[index]}"


def _share(count: int, total: int) -> str:
    return f"{count / total:.2%}" if total else "0%"


def _format_table(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = ["  ".join(cell.ljust(w) if i == 0 else cell.rjust(w)
                       for i, (cell, w) in enumerate(zip(row, widths, strict=True))).rstrip()
             for row in rows]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])
