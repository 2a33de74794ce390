"""Scripts of modules that change: what a function changes is read at run time, in archives too.

Each program runs twice, in Python and out of its archive, and has to give the same.
"""

from __future__ import annotations

import io
from typing import Any

import pytest


def both(torch: Any, build: Any, *inputs: Any) -> tuple[Any, Any]:
    """Results of two calls: of the module, and of its archive."""
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(build()), file)
    file.seek(0)
    module, loaded = build(), torch.jit.load(file)
    return [module(*inputs) for _ in range(2)], [loaded(*inputs) for _ in range(2)]


def programs(torch: Any) -> dict[str, Any]:
    """Modules whose attributes change in one method and are read in another."""
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n, self.first, self.seen, self.table = 1, True, [0], {"a": 1}

    class ByMethod(Module):
        def bump(self):
            self.n = self.n + 1

        def forward(self, x: int) -> int:
            self.bump()
            return x * self.n

    class ByBranch(Module):
        def mark(self):
            self.first = False

        def forward(self, x: int) -> int:
            if self.first:
                self.mark()
                return x
            return -x

    class OfLists(Module):
        def forward(self, x: int) -> int:
            seen = self.seen
            seen.append(x)
            self.table["b"] = len(self.seen)
            return self.table["b"] + len(self.table)

    class OfChildren(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.child = ByMethod()

        def forward(self, x: int) -> int:
            y = self.child(x)
            return y + self.child.n

    return {kind.__name__: kind for kind in (ByMethod, ByBranch, OfLists, OfChildren)}


@pytest.mark.parametrize("name", ["ByMethod", "ByBranch", "OfLists", "OfChildren"])
def test_attributes_that_change_are_read_at_run_time(torch: Any, name: str) -> None:
    here, there = both(torch, programs(torch)[name], 3)
    assert here == there
    assert here[0] != here[1]


def test_containers_are_walked(torch: Any) -> None:
    class Layers(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(3)])
            self.by_name = torch.nn.ModuleDict({"tanh": torch.nn.Tanh()})

        def forward(self, x):
            for number, layer in enumerate(self.layers):
                x = layer(x) * (number + 1)
            if "tanh" in self.by_name:
                x = self.by_name["tanh"](x)
            return x

    (here, _), (there, _) = both(torch, Layers, torch.ones(2, 3))
    assert torch.equal(here, there)


def test_sizes_dtypes_and_several_targets(torch: Any) -> None:
    class Views(torch.nn.Module):
        def forward(self, x):
            rows, columns = x.shape
            a = b = x.view(rows * columns)
            return a, b.double(), x.type(torch.int64), torch.einsum("ij,kj->ik", x, x)

    (here, _), (there, _) = both(torch, Views, torch.ones(2, 3))
    for a, b in zip(here, there, strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


@pytest.mark.parametrize("kind", ["RNNCell", "GRUCell", "LSTMCell"])
@pytest.mark.parametrize("shape", [(2, 3), (3,)])
def test_cells(torch: Any, kind: str, shape: tuple) -> None:
    def build() -> Any:
        torch.manual_seed(0)
        return getattr(torch.nn, kind)(3, 4)

    (here, _), (there, _) = both(torch, build, torch.ones(shape))
    for a, b in zip(here, there, strict=True):
        assert torch.allclose(a, b)


def test_slices_of_containers_which_pytorch_does_not_compile() -> None:
    import flambeau as torch

    class Layers(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(3)])

        def forward(self, x):
            for number, layer in enumerate(reversed(self.layers[1:]), 1):
                x = layer(x) * number
            return x

    (here, _), (there, _) = both(torch, Layers, torch.ones(2, 3))
    assert torch.equal(here, there)


def test_refusals_name_the_line() -> None:
    import flambeau as torch

    class Untyped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[int] = []

        def forward(self, x: int) -> int:
            self.seen.append(x)
            return len(self.seen)

    class Renormed(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.embedding(x, torch.ones(2, 2), max_norm=1.0)

    for kind, message in ((Untyped, "without annotation"),
                          (Renormed, "max_norm of embedding")):
        with pytest.raises(NotImplementedError, match=message):
            torch.jit.script(kind()).save(io.BytesIO())


def test_settings_can_be_read_from_an_archive(torch: Any) -> None:
    class Settings(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.width, self.name, self.sizes = 3, "small", [1, 2]

        def forward(self, x: int) -> int:
            return x * self.width

    file = io.BytesIO()
    torch.jit.save(torch.jit.script(Settings()), file)
    file.seek(0)
    loaded = torch.jit.load(file)
    assert (loaded.width, loaded.name, loaded.sizes, loaded(2)) == (3, "small", [1, 2], 6)


@pytest.mark.parametrize("method", ["register_forward_pre_hook", "register_forward_hook"])
def test_hooks_are_not_left_out(method: str) -> None:
    import flambeau as torch

    module = torch.nn.Sequential(torch.nn.Linear(2, 2))
    getattr(module[0], method)(lambda module, *args: None)
    with pytest.raises(NotImplementedError, match="the hook .*<lambda> of a Linear"):
        torch.jit.script(module).save(io.BytesIO())
    torch.nn.utils.weight_norm(module := torch.nn.Linear(2, 2))
    torch.jit.script(module).save(io.BytesIO())


def test_dataclasses_with_factories_are_refused(torch):
    import dataclasses

    @dataclasses.dataclass
    class Filled:
        values: list = dataclasses.field(default_factory=list)

    with pytest.raises(NotImplementedError, match="Default factory initializers are not supported"):
        torch.jit.script(Filled)


def test_the_object_behind_a_module_tells_its_attributes(torch):
    scripted = torch.jit.script(torch.nn.Linear(2, 2))
    assert scripted._c.getattr("training") is True
    scripted.eval()
    assert scripted._c.getattr("training") is False
