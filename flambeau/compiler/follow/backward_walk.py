"""Generate straight-line code that walks the autograd graph of a recorded backward pass."""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any

from ...autograd.node import Node
from ...autograd.outputs import Output
from ...tensor.exposed_memory import EXPOSED
from ...tensor.layout import as_bytes
from ...tensor.tensor import Tensor, creation
from ..trace.bindings import view_bytes
from ..trace.trace import Value
from .holder_census import HELD_BY_LIST, HolderCensus

if TYPE_CHECKING:
    from .backward_graph import NodeShape
    from .backward_pass import BackwardPass, LeafGrad
    from .following import Following
    from .memory_layout import RecycledMemory


class _Source:
    """Lines of generated code, and the objects they refer to by name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "Tensor": Tensor, "new": object.__new__, "creation": creation,
            "Output": Output,
        }

    def constant(self, value: Any) -> str:
        """Return a name for an object in the generated code."""
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def refuse_if(self, *tests: str) -> None:
        """Make the walk return False, before any side effect, if any test is true."""
        self.lines += [f"if {' or '.join(tests)}:", "    return False"]


def write_walk(pass_: BackwardPass, following: Following, nodes: list[Node]) -> Callable:
    """Generate walk(following, root): compare the graph below `root` with that of `nodes`, set the
    grads and free the nodes. It returns False, with no side effects, if the graphs differ."""
    source = _Source()
    source.lines.append("sequence = f.sequence")
    output = pass_.graph.output
    if output >= 0:
        source.refuse_if("root.__class__ is not Output", f"root.index != {output}")
    source.lines.append("n0 = root.node" if output >= 0 else "n0 = root")
    _compare_nodes(source, pass_.graph.nodes)
    _compare_leaves(source, pass_.grads)
    compared = len(source.lines)
    _set_grads(source, pass_, following)
    for number, node in enumerate(nodes):
        if node.plan.frees or any(version is not None for version in node.versions):
            source.lines.append(f"n{number}.saved = None")
    text = "\n".join([
        "def walk(f, root):", "    try:",
        *[f"        {line}" for line in source.lines[:compared]],
        "    except (AttributeError, TypeError, ValueError):", "        return False",
        *[f"    {line}" for line in source.lines[compared:]], "    return True",
    ])
    exec(compile(text, "<flambeau follow>", "exec"), source.names)
    walk: Callable = source.names["walk"]
    return walk


def _compare_nodes(source: _Source, shapes: list[NodeShape]) -> None:
    """Follow the edges, then compare all nodes at once."""
    seen = {0}
    for number, shape in enumerate(shapes):
        if shape.edges:
            names = "".join(f"e{k}, " for k in range(len(shape.edges)))
            source.lines.append(f"{names}= n{number}.edges")
        for k, edge in enumerate(shape.edges):
            if edge.__class__ is not tuple:
                source.refuse_if(f"e{k} is not {source.constant(edge)}")
                continue
            below, output = edge
            if output >= 0:
                source.refuse_if(f"e{k}.__class__ is not Output", f"e{k}.index != {output}")
            target = f"e{k}.node" if output >= 0 else f"e{k}"
            if below in seen:
                source.refuse_if(f"{target} is not n{below}")
            else:
                seen.add(below)
                source.lines.append(f"n{below} = {target}")
    source.names |= {
        "shapes": [(shape.type, shape.plan, None, shape.restore) for shape in shapes],
        "shape_of": attrgetter("__class__", "plan", "hooks", "restore"),
        "sequence_of": attrgetter("sequence"),
    }
    source.lines.append("nodes = " + "".join(f"n{k}, " for k in range(len(shapes))))
    source.refuse_if("[*map(shape_of, nodes)] != shapes", "min(map(sequence_of, nodes)) < sequence")


def _compare_leaves(source: _Source, grads: list[LeafGrad]) -> None:
    leaves = tuple([grad.leaf for grad in grads])
    source.names |= {
        "leaves": leaves, "leaf_arrays": tuple([grad.array for grad in grads]),
        "nothing": (None,) * len(leaves), "is_": is_, "array_of": attrgetter("_array"),
        "grad_of": attrgetter("_grad"), "flag_of": attrgetter("_requires_grad"),
        "attributes_of": attrgetter("__dict__"), "have_hooks": _have_hooks,
    }
    source.refuse_if(
        "not all(map(is_, map(array_of, leaves), leaf_arrays))",
        "not all(map(is_, map(grad_of, leaves), nothing))", "not all(map(flag_of, leaves))",
        "any(map(attributes_of, leaves)) and have_hooks(leaves)",
    )
    if leaves:
        source.lines.append("".join(f"l{k}, " for k in range(len(leaves))) + "= leaves")


def _have_hooks(leaves: tuple[Tensor, ...]) -> bool:
    return any(attributes.get("_backward_hooks") or attributes.get("_post_accumulate_grad_hooks")
               for attributes in (leaf.__dict__ for leaf in leaves))


def _set_grads(source: _Source, pass_: BackwardPass, following: Following) -> None:
    memory = _GradMemory(following.segment.recycled, pass_)
    source.names |= {"bind": memory.bind, "arrays": memory.recycled.arrays, "views": pass_.views}
    source.lines.append("bind(f)")
    for number, ((s, k, _), grad) in enumerate(zip(memory.rows, pass_.grads, strict=True)):
        source.lines += [
            "g = new(Tensor)", f"g._array = arrays[{s}]" if k is None else f"g._array = views[{k}]",
            "g._requires_grad = g._tracked = False",
            "g._node = g._grad = g._counter = g._base = None", "g._stamp = creation.stamp",
            *([f"g._bump({grad.version})"] if grad.version else []),
            f"l{number}._grad = g",
        ]
    source.lines += ["g = None"]


class _GradMemory:
    """The memory of the grads that a pass sets.

    rows: (storage, index in `views`, window) of each grad; the index is None if the grad covers
        its whole storage.
    """

    def __init__(self, recycled: RecycledMemory, pass_: BackwardPass) -> None:
        self.recycled, self.views = recycled, pass_.views
        self.rows: list[tuple[int, int | None, Value]] = []
        for grad in pass_.grads:
            k, storage = len(self.views) if grad.is_part else None, grad.window.storage
            self.rows.append((storage, k, grad.window))
            if k is not None:
                self.views.append(None)
                recycled.viewers[storage].append((pass_, k))
        self.storages = [s for s, _, _ in self.rows]
        self.parts = [s for s, k, _ in self.rows if k is not None]
        self.ids: set[int] = set()
        self.census = HolderCensus(recycled, self.storages)
        recycled.generation += 1
        if not any(entry is self.views for entry in recycled.windows):
            recycled.windows.append(self.views)

    def bind(self, following: Following) -> None:
        """Bind the storages to arrays and windows that nobody else holds."""
        recycled = self.recycled
        if not self.census.is_as_before(recycled.arrays) \
                or not EXPOSED.keys().isdisjoint(self.ids):
            self._refresh()
        owners, arrays = following.owners, recycled.arrays
        for s in self.storages:
            owners[s] = arrays[s]
        following.bound |= self.ids
        following.windows.update(zip(self.parts, self.views, strict=True))

    def _refresh(self) -> None:
        array = window = None
        for s, k, value in self.rows:
            array = self.recycled.take(s)
            if k is not None:
                window = self.views[k]
                if window is None or window.base is not array \
                        or sys.getrefcount(window) > HELD_BY_LIST:
                    self.views[k] = _create_window(array, value)
                    self.recycled.generation += 1
            array = window = None  # these references would count as holders
        self.census.note(self.recycled.arrays, None)
        self.ids = {id(self.recycled.arrays[s]) for s in self.storages}


def _create_window(owner: Any, value: Any) -> Any:
    is_whole_owner = value.offset == 0 and value.shape == owner.shape \
        and value.strides == owner.strides and value.dtype == owner.dtype
    return owner[...] if is_whole_owner else view_bytes(as_bytes(owner), value)
