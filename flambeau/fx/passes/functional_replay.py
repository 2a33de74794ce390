"""FunctionalReplay: runs a graph of aten's operators without in-place operators.

Tensors on one memory share its functional value. A write computes a new value of the memory: that
of a view goes through the inverses of the view's steps. Views read the memory again when it has
changed.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from ...ops.core.aten import aten
from ...tensor.tensor import Tensor
from ...utils import _pytree as pytree
from ..graph_module import GraphModule
from ..interpreter import Interpreter

__all__ = ["FunctionalReplay"]


def _call(name: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(aten, name)(*args, **kwargs)


def _choose(name: str, target: Any) -> Any:
    """Return the overload of another operator that has the name of the target's."""
    overload = vars(target).get("_overloadname")
    packet = getattr(aten, name)
    return packet if overload is None else getattr(packet, overload)


class _Inverses:
    """How a write to a view's part changes the value that is viewed, by the view's name.

    Each method takes the value, the new part and the view's arguments. `suffix`: of the views that
    the inverses call in turn.
    """

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix
        self.by_name: dict[str, Callable[..., Tensor]] = {
            **dict.fromkeys(("view", "reshape", "_unsafe_view", "squeeze", "unsqueeze", "flatten",
                             "unflatten", "view_as"), self._reshape),
            **dict.fromkeys(("alias", "detach"), lambda value, part: part),
            "t": lambda value, part: self._view("t", part),
            "permute": self._permute,
            "transpose": lambda value, part, *dims: self._view("transpose", part, *dims),
            **{name: functools.partial(_call, f"{name}_scatter")
               for name in ("select", "slice", "diagonal", "as_strided")},
        }

    def _view(self, name: str, *args: Any) -> Tensor:
        result: Tensor = _call(name + self._suffix, *args)
        return result

    def _reshape(self, value: Tensor, part: Tensor, *args: Any, **words: Any) -> Tensor:
        return self._view("view", part, list(value.shape))

    def _permute(self, value: Tensor, part: Tensor, dims: Any) -> Tensor:
        order = sorted(range(len(dims)), key=lambda i: dims[i] % len(dims))
        return self._view("permute", part, order)


_SEVERAL = frozenset(("split", "chunk", "unbind", "split_with_sizes", "tensor_split"))
_ONLY_READS = frozenset(("expand", "real", "imag", "unfold", "narrow", "movedim", "swapaxes"))


class _Step(NamedTuple):
    """A view: how it reads a value, and how a new part changes the value (None if unknown)."""

    name: str
    read: Callable[[Tensor], Tensor]
    write: Callable[[Tensor, Tensor], Tensor] | None


class _Memory:
    """The functional value of a memory; `source`: the argument whose memory it is."""

    def __init__(self, value: Tensor, source: Tensor | None = None, is_constant: bool = False):
        self.value, self.source, self.is_constant = value, source, is_constant
        self.version = 0


class _View:
    """A tensor of the graph: the steps by which it views its memory, and its last value."""

    def __init__(self, memory: _Memory, steps: tuple[_Step, ...], value: Tensor) -> None:
        self.memory, self.steps, self.value = memory, steps, value
        self.version = memory.version

    def read(self) -> Tensor:
        """Return the value, after reading the memory again if it has changed."""
        if self.version != self.memory.version:
            self.value, self.version = self.memory.value, self.memory.version
            for step in self.steps:
                self.value = step.read(self.value)
        return self.value

    def write(self, new: Tensor) -> None:
        """Write to the memory."""
        if self.memory.is_constant:
            raise NotImplementedError("torch.func.functionalize: a write to a captured tensor")
        old = self.read()
        if new.dtype is not old.dtype:
            new = new.to(old.dtype)
        values = [self.memory.value] if self.steps else []  # that the steps view
        for step in self.steps[:-1]:
            values.append(step.read(values[-1]))
        for step, value in zip(reversed(self.steps), reversed(values), strict=True):
            if step.write is None:
                raise NotImplementedError(
                    f"torch.func.functionalize: a write to a view by {step.name}")
            new = step.write(value, new)
        self.memory.value = new
        self.memory.version += 1
        self.read()


class FunctionalReplay(Interpreter):
    """Runs a graph that `make_fx` recorded; arguments that it writes to are written at the end.

    `copies_views`: calls `view_copy` and its like in place of view operators.
    """

    def __init__(self, module: GraphModule, copies_views: bool = False) -> None:
        super().__init__(module)
        self._copies_views = copies_views
        self._inverses = _Inverses("_copy" if copies_views else "").by_name
        self._inputs: list[_View] = []

    def run(self, *args: Any, **options: Any) -> Any:
        """Run the graph on the leaves of the arguments."""
        result = super().run(*args, **options)
        result = pytree.tree_map(lambda x: x.read() if isinstance(x, _View) else x, result)
        for view in self._inputs:
            if view.memory.version:
                _call("copy_", view.memory.source, view.memory.value)
        return result

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().placeholder(target, args, kwargs)
        if not isinstance(value, Tensor):
            return value
        self._inputs.append(_View(_Memory(value, value), (), value))
        return self._inputs[-1]

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        return _View(_Memory(value, is_constant=True), (), value) \
            if isinstance(value, Tensor) else value

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is operator.getitem and not isinstance(args[0], _View):
            return args[0][args[1]]
        if target is operator.setitem:
            return self._set_item(*args)
        packet = getattr(target, "overloadpacket", target)
        name = getattr(packet, "__name__", "")
        if name in ("resize_", "set_", "resize_as_"):
            raise NotImplementedError(f"torch.func.functionalize: {name}")
        if kwargs.get("out") is not None:
            return self._write_out(target, args, dict(kwargs))
        if name.endswith("_") and not name.endswith("__") and isinstance(args[0], _View):
            return self._write_in_place(packet, target, args, kwargs)
        if any(isinstance(value, GraphModule) for value in args):
            functions = [self._replay_subgraph(value) if isinstance(value, GraphModule) else value
                         for value in args]
            return _wrap(target(*_read(functions)))
        if isinstance(args[0] if args else None, _View) and (
                name in self._inverses or name in _SEVERAL or name in _ONLY_READS):
            return self._view(packet, target, args, kwargs)
        return _wrap(target(*_read(args), **_read(kwargs)))

    def _replay_subgraph(self, module: GraphModule) -> Callable[..., Any]:
        """Return a function that runs a branch, or the body of a loop, as this graph is run."""
        def run(*values: Any) -> Any:
            return FunctionalReplay(module, self._copies_views).run(*values)

        return run

    def _view(self, packet: Any, target: Any, args: Any, kwargs: Any) -> Any:
        """Return views of a view."""
        base, rest, words = args[0], _read(args[1:]), _read(kwargs)
        name = packet.__name__
        function = _choose(f"{name}_copy", target) if self._copies_views else target

        def read(value: Tensor) -> Any:
            return function(value, *rest, **words)

        if name in _SEVERAL:
            parts = read(base.read())
            return [_View(base.memory, (*base.steps, _create_part_step(name, read, i)), part)
                    for i, part in enumerate(parts)]
        inverse = self._inverses.get(name)
        write = None if inverse is None else \
            lambda value, part: inverse(value, part, *rest, **words)
        return _View(base.memory, (*base.steps, _Step(name, read, write)), read(base.read()))

    def _write_in_place(self, packet: Any, target: Any, args: Any, kwargs: Any) -> _View:
        """Compute what an in-place operator writes, and write it."""
        view, name = args[0], packet.__name__.removesuffix("_")
        rest, words = _read(args[1:]), _read(kwargs)
        if name in self._inverses:  # unsqueeze_ and its like change what the tensor views
            changed = self._view(getattr(aten, name), getattr(aten, name), (view, *args[1:]),
                                 kwargs)
            view.steps, view.value, view.version = changed.steps, changed.value, changed.version
            return view
        old = view.read()
        if name == "zero":
            new = _call("zeros_like", old)
        elif name == "copy":
            new = rest[0].to(old.dtype).expand(old.shape).clone()
        elif name == "fill":
            new = _call("full_like", old, rest[0])
        else:
            new = _choose(name, target)(old, *rest, **words)
        view.write(new if new.shape == old.shape else new.expand(old.shape))
        return view

    def _write_out(self, target: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Compute what an operator writes to `out`, and write it."""
        out = kwargs.pop("out")
        result = target(*_read(args), **_read(kwargs))
        outs, values = ([out], [result]) if isinstance(out, _View) else (list(out), list(result))
        for view, value in zip(outs, values, strict=True):
            is_own = not view.steps and view.memory.source is None  # out= may resize it
            if value.shape != view.read().shape and not is_own:
                raise NotImplementedError("torch.func.functionalize: out= of another shape")
            view.write(value)
        return out

    def _set_item(self, base: _View, index: Any, value: Any) -> None:
        from ...export.aten_calls import decompose_getitem

        steps = decompose_getitem(base.read(), _read(index))
        if steps is None:
            raise NotImplementedError("torch.func.functionalize: a write to this index")
        view: Any = base
        for target, step_args, words in steps:
            if target.overloadpacket.__name__ == "index":
                new = _as_tensor(value, view)
                view.write(_call("index_put", view.read(), step_args[1], new))
                return
            view = self._view(target.overloadpacket, target, (view, *step_args[1:]), words)
        view.write(_as_tensor(value, view).expand(view.read().shape))


def _as_tensor(value: Any, view: _View) -> Tensor:
    value = _read(value)
    return value if isinstance(value, Tensor) else \
        _call("full", (), value, dtype=view.read().dtype)


def _create_part_step(name: str, read: Callable, i: int) -> _Step:
    """Return the step of one of several views."""

    def write(value: Tensor, new: Tensor) -> Tensor:
        parts = list(read(value))
        shape, dims = parts[i].shape, value.ndim
        if name == "unbind":
            dim = next(d for d in range(dims) if value.shape[:d] + value.shape[d + 1:] == shape)
            return _call("select_scatter", value, new, dim, i)
        dim = next((d for d in range(dims) if value.shape[d] != shape[d]), 0)
        start = sum(part.shape[dim] for part in parts[:i])
        return _call("slice_scatter", value, new, dim, start, start + shape[dim])

    return _Step(name, lambda value: read(value)[i], write)


def _read(value: Any) -> Any:
    """Return values in place of views, in tuples, lists and dictionaries."""
    return pytree.tree_map(lambda x: x.read() if isinstance(x, _View) else x, value)


def _wrap(value: Any) -> Any:
    """Return views of new memories in place of tensors."""
    return pytree.tree_map(
        lambda x: _View(_Memory(x), (), x) if isinstance(x, Tensor) else x, value)
