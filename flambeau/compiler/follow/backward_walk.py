"""Generates the walk through the autograd graph of a backward pass, as straight-line code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...autograd.node import Node
from ...autograd.outputs import Output
from ...tensor.layout import _as_bytes
from ...tensor.exposed_memory import EXPOSED
from ...tensor.tensor import Tensor, creation
from ..trace.bindings import window_on_bytes
from .holder_census import HELD_BY_LIST

if TYPE_CHECKING:
    from .backward_pass import BackwardPass
    from .following import Following


class _Source:
    """Lines of generated code, and the objects that they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "Tensor": Tensor, "new": object.__new__, "creation": creation,
            "Output": Output, "count": sys.getrefcount, "window": _window,
        }

    def constant(self, value: Any) -> str:
        """The name of an object in the generated code."""
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def refuse_if(self, *tests: str) -> None:
        """Return False from the walk, before any effect, if one of the tests is true."""
        self.lines += [f"if {' or '.join(tests)}:", "    return False"]


def write_walk(pass_: BackwardPass, following: Following, nodes: list[Node]) -> Callable:
    """Generate walk(following, root), which compares the graph below `root` with that of `nodes`,
    sets the grads and frees the nodes. It returns False, without any effect, for another graph."""
    source = _Source()
    source.lines.append("sequence = f.sequence")
    if pass_.output >= 0:
        source.refuse_if("root.__class__ is not Output", f"root.index != {pass_.output}")
    source.lines.append("n0 = root.node" if pass_.output >= 0 else "n0 = root")
    _compare_nodes(source, pass_, nodes)
    _compare_leaves(source, pass_)
    _set_grads(source, pass_, following)
    for number, node in enumerate(nodes):
        if node.plan.frees or any(version is not None for version in node.versions):
            source.lines.append(f"n{number}.saved = None")
    text = "\n".join([
        "def walk(f, root):", "    try:", *[f"        {line}" for line in source.lines],
        "        return True", "    except (AttributeError, ValueError):", "        return False",
    ])
    exec(compile(text, "<flambeau follow>", "exec"), source.names)
    walk: Callable = source.names["walk"]
    return walk


def _compare_nodes(source: _Source, pass_: BackwardPass, nodes: list[Node]) -> None:
    seen = {0}
    for number, (kind, plan, restore, edges) in enumerate(pass_.shapes):
        n = f"n{number}"
        tests = [f"{n}.__class__ is not {source.constant(kind)}",
                 f"{n}.plan is not {source.constant(plan)}", f"{n}.hooks is not None",
                 f"{n}.sequence < sequence"]
        r = source.constant(restore)
        tests.append(f"{n}.restore is not {r}" + ("" if restore is None
                                                  else f" and {n}.restore != {r}"))
        source.refuse_if(*tests)
        if edges:
            source.lines.append("".join(f"e{k}, " for k in range(len(edges))) + f"= {n}.edges")
        for k, edge in enumerate(edges):
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


def _compare_leaves(source: _Source, pass_: BackwardPass) -> None:
    for number, (leaf, array, _, _) in enumerate(pass_.grads):
        name = source.constant(leaf)
        source.lines.append(f"d = {name}.__dict__")
        source.refuse_if(
            f"{name}._array is not {source.constant(array)}", f"{name}._grad is not None",
            f"not {name}._requires_grad", "d and (d.get('_backward_hooks') or "
            "d.get('_post_accumulate_grad_hooks'))",
        )
        source.lines.append(f"l{number} = {name}")


def _set_grads(source: _Source, pass_: BackwardPass, following: Following) -> None:
    recycled, views = following.segment.recycled, pass_.views
    recycled.generation += 1
    if not any(entry is views for entry in recycled.windows):
        recycled.windows.append(views)
    source.names |= {"EXPOSED": EXPOSED, "recycle": recycled.take, "memory": recycled}
    source.lines += ["owners = f.owners", "bound = f.bound", "windows = f.windows",
                     f"arrays = {source.constant(recycled.arrays)}",
                     f"views = {source.constant(views)}", "a = w = g = None"]
    for number, (_, _, value, part) in enumerate(pass_.grads):
        s = value.storage
        k = len(views)
        # A window that only `views` holds is no holder.
        held = f"count(a) > {HELD_BY_LIST}" if not part else (
            f"count(a) > {HELD_BY_LIST} and (count(a) > {HELD_BY_LIST + 1} or w is None "
            f"or w.base is not a or count(w) > {HELD_BY_LIST})")
        source.lines += [f"w = views[{k}]"] if part else []
        source.lines += [
            f"a = arrays[{s}]", f"if {held} or id(a) in EXPOSED:",
            "    a = w = None",
            f"    a = recycle({s})",
            *([f"    w = views[{k}]"] if part else []),
            f"owners[{s}] = a", "bound.add(id(a))",
        ]
        if part:
            views.append(None)
            recycled.viewers[s].append((pass_, k))
            source.lines += [
                f"if w is None or w.base is not a or count(w) > {HELD_BY_LIST}:",
                f"    w = views[{k}] = window(a, {source.constant(value)})",
                "    memory.generation += 1",
                f"windows[{s}] = a = w",
            ]
        source.lines += [
            "g = new(Tensor)", "g._array = a", "g._requires_grad = g._tracked = False",
            "g._node = g._grad = g._counter = g._base = None", "g._stamp = creation.stamp",
            *([f"g._bump({pass_.versions[number]})"] if pass_.versions[number] else []),
            f"l{number}._grad = g",
        ]
    source.lines += ["g = a = w = None"]


def _window(owner: Any, value: Any) -> Any:
    whole = value.offset == 0 and value.shape == owner.shape \
        and value.strides == owner.strides and value.dtype == owner.dtype
    return owner[...] if whole else window_on_bytes(_as_bytes(owner), value)
