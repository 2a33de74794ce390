"""Random functions of tensors: views, writes in place, aliases, nested results.

A seed gives the source of a function, its captured tensors and the arguments of each call. A
function runs in two worlds with equal contents, eagerly in one and compiled in the other, and
`snapshot` says all that a program can see of the tensors that are left.
"""

from __future__ import annotations

import collections
import random
import types
import warnings
from collections.abc import Iterator
from typing import Any

import flambeau as torch

CALLS = 8
REFUSED = "refused"
Pair = collections.namedtuple("Pair", ["left", "right"])

POINTWISE = (
    "{a} * 2", "{a} + {b}", "{a} - {b}", "torch.tanh({a})", "{a}.abs()", "{a} > 0", "{a} * {b}",
    "{a}.clamp(-2, 2)", "{a}.clone()", "torch.where({a} > 0, {a}, {b})", "-{a}", "{a}.relu()",
)
FOLDS = ("{a}.sum()", "{a}.sum(0)", "{a}.mean(-1, keepdim=True)", "{a}.amax(0)", "{a}.argmax(0)",
         "{a}.cumsum(0)", "{a} @ {b}", "torch.cat([{a}, {b}])",
         "torch.stack([{a}, {b}], 1)")
CASTS = ("{a}.float()", "{a}.double()", "{a}.long()", "{a}.to({b}.dtype)", "{a}.half()",
         "{a}.to(torch.bfloat16)", "{a}.bool()")
VIEWS = (
    "{a}.t()", "{a}.T", "{a}[0]", "{a}[1:]", "{a}[:, 1]", "{a}[..., ::2]", "{a}.view(-1)",
    "{a}.reshape(-1)", "{a}.unsqueeze(0)", "{a}.squeeze()", "{a}.expand(2, -1, -1)",
    "{a}.diagonal()", "{a}.chunk(2)[1]", "{a}.unbind()[0]", "{a}.transpose(0, -1)",
    "{a}.permute(1, 0)", "{a}.detach()", "{a}.data", "{a}.flatten()", "{a}[:]", "{a}[None]",
    "{a}.contiguous()", "{a}.narrow(0, 1, 2)", "{a}[:0]", "{a}.view_as({a})", "{a}.mT",
    "{a}.view(torch.int32)", "{a}.split(1)[-1]", "{a}.movedim(0, -1)", "{a}.unfold(0, 2, 1)",
    "torch.einsum('ij->ji', {a})", "{a}.expand_as({b})", "{a}.as_strided((2, 2), (1, 2))",
    "{a}.swapaxes(0, 1)", "{a}.real", "{a}.view({a}.shape)", "{a}.select(-1, 0)",
)
FACTORIES = ("torch.zeros(3, 3)", "torch.ones(4)", "torch.empty(0)", "torch.zeros_like({a})",
             "torch.tensor(2.0)", "torch.arange(4)", "torch.full((2, 3), 1.5)",
             "{a}.new_zeros(2, 2)", "torch.zeros(3, 0)")
WRITES = (
    "{a}.add_(1)", "{a}.mul_(2)", "{a}.copy_({b})", "{a}[0] = 3", "{a}.zero_()", "{a} += {b}",
    "{a}.neg_()", "{a}.clamp_(-1, 1)", "{a}.fill_(0.5)", "{a}[..., 0] = {b}[..., 0]",
    "{a}.masked_fill_({a} > 0, 1)", "{a}[1:] *= 2", "{a}.t().add_(1)", "{a}.view(-1)[1:].mul_(3)",
    "{a}.sub_({b})", "torch.add({a}, {b}, out={a})", "{a}[{a} > 1] = 0", "{a}.detach().mul_(2)",
    "{a}.data.add_(1)", "{a}.relu_()", "{a}.sigmoid_()", "{a}[:, 0].zero_()",
)
MARKS = ("{a}.requires_grad_()", "{a}.detach_()", "{a}.squeeze_()", "{a}.unsqueeze_(0)",
         "{a}.t_()")
RESULTS = ("{a}", "{a}, {b}", "[{a}, {a}]", "{{'x': {a}, 'y': [{b}, {a}]}}", "({a},)",
           "Pair({a}, {b})", "{a}, {b}, {c}", "{{'x': {a}, 'y': {a}, 'z': ({b}, {c})}}",
           "Pair([{a}], {{'k': {b}, 'l': None}})", "{a}, 3, {b}")
KINDS = (
    (POINTWISE, 6), (VIEWS, 8), (WRITES, 5), (FOLDS, 2), (CASTS, 2), (FACTORIES, 1), (MARKS, 0.4),
)
SHAPES = ((3, 3), (3, 3), (4,), (2, 4), (3, 0), (), (1, 3), (2, 3, 2))
DTYPES = (torch.float32,) * 5 + (torch.float64, torch.int64)
ALIASING = ("apart", "apart", "same", "view", "overlap", "captured", "part of captured",
            "alias", "made from first", "data", "array")


class RandomFunction:
    """A function of a seed; `source` shows it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        choose = self._choose = random.Random(seed)
        self.shape = choose.choice(SHAPES)
        self.shapes = [self.shape, choose.choice((self.shape, self.shape, choose.choice(SHAPES)))]
        self.captured = [self.shape, choose.choice(SHAPES)]
        self.dtypes = [choose.choice(DTYPES) for _ in range(2)]
        self.grads = [choose.random() < 0.25 and dtype.is_floating_point for dtype in self.dtypes]
        self.inner = choose.random() < 0.2
        first, second = choose.choice(ALIASING), choose.choice(ALIASING)
        self.aliasing = [first] * 4 + [second, first, second, second]
        self.lines = self._write_lines()
        self.source = "\n    ".join(["def step(x0, x1):", *self.lines, ""])

    def world(self) -> types.SimpleNamespace:
        """New captured tensors, and the function on them."""
        generator = torch.Generator().manual_seed(self.seed)
        w0 = _tensor(self.captured[0], self.dtypes[0], generator)
        w1 = _tensor(self.captured[1], self.dtypes[1], generator)
        names = {"torch": torch, "w0": w0, "w1": w1, "Pair": Pair}
        exec(compile(self.source, f"<random function {self.seed}>", "exec"), names)
        return types.SimpleNamespace(step=names["step"], captured=[w0, w1])

    def arguments(self, call: int, world: types.SimpleNamespace) -> tuple[Any, Any]:
        """The arguments of one call."""
        generator = torch.Generator().manual_seed(self.seed * 100 + call)
        aliasing = self.aliasing[call]
        x0 = _tensor(self.shapes[0], self.dtypes[0], generator)
        x1 = _tensor(self.shapes[1], self.dtypes[1], generator)
        w0 = world.captured[0]
        world.leaves = []
        if aliasing == "captured":
            return w0, x1
        if aliasing == "part of captured":
            return w0.view(w0.shape), x1
        if self.grads[0]:
            x0.requires_grad_()
        if self.grads[1]:
            x1.requires_grad_()
        world.leaves = [x0, x1]
        if aliasing == "array":
            array = x1.detach().numpy()
            return x0, torch.from_numpy(array)
        if self.inner:  # part of a graph already
            x0, x1 = x0 * 1, x1 * 1
        if aliasing == "same":
            x1 = x0
        elif aliasing == "alias":
            x1 = x0.detach()
        elif aliasing == "data":
            x1 = x0.data
        elif aliasing == "made from first":
            x1 = x0 * 2
        elif aliasing == "view":
            x1 = x0.view(x0.shape)
        elif aliasing == "overlap" and x0.ndim and x0.shape[0] > 1:
            whole = _tensor((x0.shape[0] + 1, *x0.shape[1:]), self.dtypes[0], generator)
            x0, x1 = whole[:-1], whole[1:]
        return x0, x1

    def _write_lines(self) -> list[str]:
        """Statements that run, one after the other, and what is returned."""
        choose, self.source, self.lines = self._choose, "def step(x0, x1): pass", []
        world = self.world()
        names = {"torch": torch, "Pair": Pair, "w0": world.captured[0], "w1": world.captured[1]}
        names["x0"], names["x1"] = self.arguments(0, world)
        known, lines = ["x0", "x1", "w0", "w1"], []
        kinds, weights = zip(*KINDS, strict=True)
        for number in range(choose.randint(1, 9)):
            (kind,) = choose.choices(kinds, weights)
            recent = known[-4:] if choose.random() < 0.6 else known
            a, b = choose.choice(recent), choose.choice(known)
            if kind in (WRITES, MARKS) and choose.random() < 0.4:
                a = choose.choice(known[:4])
            line = choose.choice(kind).format(a=a, b=b)
            if kind in (WRITES, MARKS):
                if choose.random() < 0.3:
                    line = f"with torch.no_grad(): {line}"
            else:
                line = f"v{number} = {line}"
            if line.startswith(("w0 +=", "w1 +=")) or " w0 +=" in line or " w1 +=" in line:
                continue  # makes it a local name
            try:
                exec(line, names)
            except Exception:
                continue
            lines.append(line)
            if line.startswith(f"v{number} ="):
                known.append(f"v{number}")
        last = known[-5:]
        a, b, c = choose.choice(last), choose.choice(last), choose.choice(known)
        return [*lines, f"return {choose.choice(RESULTS).format(a=a, b=b, c=c)}"]


def _tensor(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> Any:
    if dtype is torch.int64:
        return torch.randint(-3, 4, shape, generator=generator)
    return torch.randn(shape, dtype=dtype, generator=generator)


# ------------------------------------------------------------------------------- what is seen


def leaves(x: Any) -> Iterator[Any]:
    """The leaves of nested results."""
    if isinstance(x, (tuple, list)):
        for part in x:
            yield from leaves(part)
    elif isinstance(x, dict):
        yield from leaves(list(x.values()))
    else:
        yield x


def structure(x: Any) -> Any:
    """Classes and keys of nested results."""
    if isinstance(x, (tuple, list)):
        return type(x).__name__, [structure(part) for part in x]
    if isinstance(x, dict):
        return {key: structure(value) for key, value in x.items()}
    return type(x).__name__


def snapshot(result: Any, arguments: Any, captured: Any) -> list[Any]:
    """All that can be seen of tensors, and which are one object or lie on one memory."""
    tensors = [x for x in (*arguments, *captured, *leaves(result)) if isinstance(x, torch.Tensor)]
    every = [*tensors, *[t._base for t in tensors if t._base is not None]]
    places = [_place(t) for t in every]
    seen: list[Any] = [structure(result)]
    for tensor in tensors:
        base = tensor._base
        place = _place(tensor)
        near = [(i, place[1] - other[1]) for i, other in enumerate(places)
                if other[0] == place[0] and every[i].numel()] if tensor.numel() else []
        seen.append({
            "value": tensor.detach().tolist(), "dtype": tensor.dtype, "shape": tensor.shape,
            "stride": tensor.stride(), "offset": tensor.storage_offset(),
            "requires_grad": tensor.requires_grad,
            "is_leaf": _is_leaf(tensor),
            "version": tensor._version, "is": _position(tensor, tensors),
            "base": None if base is None else _position(base, every),
            "base shape": None if base is None else (base.shape, base.stride(), base._version),
            "memory": near[:1], "bytes": tensor.untyped_storage().nbytes(),
            "counter": [i for i, other in enumerate(every)
                        if other._counter is tensor._counter is not None][:1],
        })
    return seen


def _is_leaf(tensor: Any) -> Any:
    """Whether a tensor is a leaf; of a view whose base was written meanwhile, the error's text."""
    return attempt(lambda: tensor.is_leaf)


def _place(tensor: Any) -> tuple[int, int]:
    return tensor.untyped_storage().data_ptr(), tensor.data_ptr()


def _position(tensor: Any, tensors: list[Any]) -> int:
    return next(i for i, other in enumerate(tensors) if other is tensor)


def attempt(function: Any, *args: Any) -> Any:
    """What a function gives; for an exception, its class and text."""
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__, str(error)


def differences(function: RandomFunction, **options: Any) -> Iterator[str]:
    """What differs between eager and compiled calls, for people."""
    eager, fast = function.world(), function.world()
    compiled = torch.compile(fast.step, mode="now", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in range(CALLS):
            stages: list[list[Any]] = []
            for world, step in ((eager, eager.step), (fast, compiled)):
                stages.append(_stages(function, call, world, step))
            for name, wanted, actual in zip(("call", "write", "backward"), *stages, strict=True):
                if not _agree(wanted, actual):
                    yield f"call {call}, after {name}:\n{_gap(wanted, actual)}"
                    return
    function.served = sum(program.calls for program in compiled._programs)


def _stages(function: RandomFunction, call: int, world: Any, step: Any) -> list[Any]:
    """What is seen after a call, after writes to its results, and after a backward pass."""
    arguments = function.arguments(call, world)
    result = attempt(step, *arguments)
    seen = [snapshot(result, arguments, world.captured)]
    tensors = [x for x in leaves(result) if isinstance(x, torch.Tensor)]
    live = [x for x in tensors if x.requires_grad]
    live = live if call % 4 != 3 else live[call % 8 // 4:][:1]  # or backward from one of them
    total = sum((x.double() * x.double()).sum() for x in live)
    for tensor in tensors:
        if not tensor.requires_grad and call % 2:
            attempt(tensor.add_, 1)
        elif call % 5 == 4:
            attempt(tensor.detach().add_, 1)
    seen.append(snapshot(result, arguments, world.captured))
    grads = []
    if isinstance(total, torch.Tensor):
        roots = [x for x in world.leaves if x.requires_grad]
        if call % 3 == 2 and roots:
            grads.append(_second_derivatives(total, roots))
        grads.append(str(attempt(total.backward))[:220])
    every = (*arguments, *world.leaves, *world.captured,
             *[x for x in tensors if _is_leaf(x) is True])
    grads += [None if x.grad is None else x.grad.tolist() for x in every
              if x.requires_grad and _is_leaf(x) is True]
    for x in every:
        if _is_leaf(x) is True:
            x.grad = None
            if any(x is w for w in world.captured):
                x.requires_grad_(False)
    seen.append(grads)
    return seen


def _second_derivatives(total: Any, roots: list[Any]) -> list[Any]:
    """Gradients of gradients, or the class of the error."""
    first = attempt(lambda: torch.autograd.grad(total, roots, create_graph=True, allow_unused=True))
    if not first or first[0].__class__ is str:
        return [REFUSED]
    norm = sum((g * g).sum() for g in first if g is not None and g.requires_grad)
    if not isinstance(norm, torch.Tensor):
        return []
    second = attempt(lambda: torch.autograd.grad(norm, roots, retain_graph=True, allow_unused=True))
    if second[0].__class__ is str:
        return [REFUSED]
    return [None if g is None else g.tolist() for g in second]


def _agree(wanted: Any, actual: Any) -> bool:
    """Whether two observations agree: numbers up to rounding, all else exactly. A compiled call
    that wrote to its arguments may refuse a second derivative."""
    if actual == [REFUSED]:
        return True
    if isinstance(wanted, (list, tuple)) and isinstance(actual, (list, tuple)):
        if len(wanted) != len(actual):
            return False
        return all(_agree(a, b) for a, b in zip(wanted, actual, strict=True))
    if isinstance(wanted, dict) and isinstance(actual, dict):
        return wanted.keys() == actual.keys() and all(_agree(wanted[k], actual[k]) for k in wanted)
    if isinstance(wanted, float) and isinstance(actual, float):
        return wanted == actual or (wanted != wanted and actual != actual) or (
            abs(wanted - actual) <= 1e-4 * max(1.0, abs(wanted)))
    return repr(wanted) == repr(actual)


def _gap(wanted: list[Any], actual: list[Any]) -> str:
    if len(wanted) != len(actual):
        return f"  {wanted}\n  {actual}"
    lines = []
    for number, (a, b) in enumerate(zip(wanted, actual, strict=True)):
        if isinstance(a, dict) and isinstance(b, dict) and "stride" in a:
            lines += [f"  tensor {number - 1} {key}: {a[key]}, compiled: {b[key]}"
                      for key in a if repr(a[key]) != repr(b[key])]
        elif repr(a) != repr(b):
            lines.append(f"  {a}, compiled: {b}")
    return "\n".join(lines)
