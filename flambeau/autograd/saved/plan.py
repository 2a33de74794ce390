"""Plans: what a recorded operator saves for its derivative, given which inputs require grad."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...native.foundation.generated_code import define
from ...tensor.layout import suggest_format
from ...tensor.tensor import INFERENCE, Tensor
from ..errors.graph_errors import raise_inference
from .values import SavedOutput

if TYPE_CHECKING:
    from ..node import Node

N = TypeVar("N", bound="Node")

# The kinds of values that a plan can save, by origin.
INPUT, OUTPUT, SHAPE, ATTRIBUTE, NEEDS, DTYPE, FORMAT = range(7)


class Plan(Generic[N]):
    """The vjps that a call needs, given which inputs require grad, and the values they read.

    `sources`: (kind, position) of each saved value. `entries`: (vjp, indices of the saved values
    it reads). `inputs`: positions of the tensor parameters that get a gradient, in order.
    `sequences`: positions of the parameters that are lists of tensors; `optional`: of those that
    may be None or a number. `only`: the vjp, if there is one and it reads all saved values in
    order. `plain`: no saved value is a tensor. `joint`: one vjp returns the gradients of all
    inputs. `arguments`: (position, index of the saved value) of each saved argument.
    """

    __slots__ = (
        "arguments", "choose_node", "entries", "frees", "inputs", "joint", "keep", "node_type",
        "only", "pack", "plain", "sources", "unversioned",
    )

    def __init__(
        self, node_type: type[N], sources: Sequence[tuple[int, int]],
        entries: Sequence[tuple[Callable, tuple[int, ...]]], inputs: Sequence[int], joint: bool,
        sequences: Sequence[int] = (), optional: Sequence[int] = (),
    ) -> None:
        self.node_type, self.sources, self.entries = node_type, tuple(sources), tuple(entries)
        self.inputs, self.joint = tuple(inputs), joint
        self.arguments = [(i, k) for k, (kind, i) in enumerate(self.sources)
                          if kind in (INPUT, ATTRIBUTE)]
        self.plain = all(kind not in (INPUT, OUTPUT) for kind, _ in self.sources)
        self.unversioned = (None,) * len(self.sources)
        self.pack = _compile_packer(self.sources) if self.plain else None
        self.keep = _compile_keeper(self.sources, sequences, optional)
        self.frees = False  # whether attributes are freed like tensors: index arrays are
        self.choose_node: Callable[[tuple], type[N]] | None = None  # by the call's arguments
        self.only = None
        if len(self.entries) == 1 and not joint:
            vjp, indices = self.entries[0]
            if indices == tuple(range(len(self.sources))):
                self.only = vjp


# Sources of values that are no tensors, given the arguments `a` of a call.
_FORMS = {SHAPE: "a[{}]._array.shape", ATTRIBUTE: "a[{}]", DTYPE: "a[{}].dtype",
          FORMAT: "suggest_format(a[{}]._array)"}


def _compile_packer(sources: tuple[tuple[int, int], ...]) -> Callable[[tuple], tuple]:
    """Return a function from a call's arguments to the tuple of saved values, none a tensor."""
    parts = [_FORMS.get(kind, "(True,)").format(i) for kind, i in sources]
    return eval(f"lambda a: ({' '.join(p + ',' for p in parts)})")  # generated: hot path


def list_shapes(value: Any) -> Any:
    """Return the shape of a tensor, those of a list of tensors, or None for None."""
    if value.__class__ in (tuple, list):
        return tuple([v._array.shape for v in value])
    return None if value is None else value._array.shape


def keep_outputs(result: Any) -> Any:
    """Return a call's result, or results, as saved values, without saved-tensor hooks.
    AttributeError for a subclass, which can't be rebuilt from its array alone."""
    if result.__class__ is Tensor:
        return SavedOutput(result)
    if isinstance(result, Tensor):
        raise AttributeError
    return tuple([SavedOutput(y, i) for i, y in enumerate(result)])


def _compile_keeper(
    sources: tuple[tuple[int, int], ...], sequences: Sequence[int], optional: Sequence[int]
) -> Callable[[Plan, tuple, Any, tuple], tuple]:
    """Return `save` specialized to one plan, for calls without saved-tensor hooks. It raises
    AttributeError if a saved input is neither a tensor nor declared to be optional.
    """
    lines, values, versions = [], "", ""
    for k, (kind, i) in enumerate(sources):
        version = "None"
        if kind == INPUT:
            read = [f"    if v{k}._stamp is INFERENCE:", "        raise_inference()",
                    f"    c{k} = v{k}._counter", f"    n{k} = 0 if c{k} is None else c{k}.value"]
            if i in optional:
                read = [f"    n{k} = None", f"    if isinstance(v{k}, Tensor):",
                        *["    " + line for line in read]]
            lines += [f"    v{k} = a[{i}]", *read]
            value, version = f"v{k}", f"n{k}"
        elif kind == OUTPUT:
            value, version = "keep_outputs(y)", "0"
        elif kind == NEEDS:
            value = "needed"
        elif kind == SHAPE and i in sequences:
            value = f"list_shapes(a[{i}])"
        else:
            value = _FORMS[kind].format(i)
        values, versions = values + value + ", ", versions + version + ", "
    names: dict[str, Any] = {"INFERENCE": INFERENCE, "raise_inference": raise_inference,
                             "Tensor": Tensor,
                             "keep_outputs": keep_outputs, "list_shapes": list_shapes,
                             "suggest_format": suggest_format}
    source = ["def keep(plan, a, y, needed):", *lines, f"    return ({values}), ({versions})"]
    text = "\n".join(source)
    define(text, f"<flambeau saving {zlib.crc32(text.encode()):08x}>", names)  # generated: hot
    return names["keep"]
