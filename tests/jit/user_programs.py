"""Programs of the kind that users script: classes, enums, bases, blocks, comprehensions."""

import enum
from dataclasses import dataclass
from typing import Any, List  # noqa: UP035  # as programs write

__all__ = ["programs", "programs_beyond_pytorch"]


def programs(torch: Any) -> dict[str, tuple[Any, tuple]]:
    """Modules to build, with their inputs, by name."""
    return {**_of_classes(torch), **_of_enums(torch), **_of_blocks(torch)}


def _script_classes(torch: Any) -> tuple[Any, Any]:
    """A class with state and operators, and a dataclass."""

    @torch.jit.script
    class Pair:
        def __init__(self, first: torch.Tensor, count: int):
            self.first = first
            self.count = count
            self.twice = count * 2
            self.names: List[str] = []  # noqa: UP006

        def total(self, factor: float = 2.0) -> torch.Tensor:
            self.count += 1
            self.names.append("a")
            return self.first * factor + self.count + self.twice + len(self.names)

        def __add__(self, other: torch.Tensor) -> torch.Tensor:
            return self.first + other

        @staticmethod
        def half(x: torch.Tensor) -> torch.Tensor:
            return x / 2

    @torch.jit.script
    @dataclass
    class Point:
        x: float
        y: float = 2.0

        def norm(self) -> float:
            return (self.x ** 2 + self.y ** 2) ** 0.5

    return Pair, Point


def _of_classes(torch: Any) -> dict[str, tuple[Any, tuple]]:
    nn, x = torch.nn, torch.arange(6.0).reshape(2, 3) - 2
    Pair, Point = _script_classes(torch)

    class UsesClass(nn.Module):
        def forward(self, x):
            pair = Pair(x, 3)
            pair.total()
            pair.count = pair.count + 1
            return pair.total(0.5) + pair.count, pair + x

    class HoldsClass(nn.Module):
        def __init__(self):
            super().__init__()
            self.pair = Pair(torch.ones(3), 1)

        def forward(self, x):
            return x + self.pair.total() + self.pair.count

    class ListsOfClass(nn.Module):
        def forward(self, x):
            pairs = [Pair(x, 1), Pair(x, 2)]
            total = torch.zeros(2, 3)
            for pair in pairs:
                total = total + pair.total()
            return total

    class Dataclass(nn.Module):
        def forward(self, x):
            point = Point(3.0)
            return x * point.norm() + Point(1.0, y=0.5).y

    kinds = (UsesClass, HoldsClass, ListsOfClass, Dataclass)
    return {kind.__name__: (kind, (x,)) for kind in kinds}


def _of_enums(torch: Any) -> dict[str, tuple[Any, tuple]]:
    nn, x = torch.nn, torch.arange(6.0).reshape(2, 3) - 2

    class Color(enum.Enum):
        RED = 1
        GREEN = 2

    class OfEnum(nn.Module):
        def __init__(self):
            super().__init__()
            self.color = Color.GREEN

        def choose(self, color: Color) -> int:
            if color == Color.RED:
                return color.value
            return 10

        def forward(self, x):
            if self.color == Color.GREEN:
                x = x + 1
            return x * self.choose(Color.RED) + self.choose(self.color)

    return {"OfEnum": (OfEnum, (x,))}


def _of_blocks(torch: Any) -> dict[str, tuple[Any, tuple]]:
    nn, x = torch.nn, torch.arange(6.0).reshape(2, 3) - 2

    @torch.jit.script
    class Counted:
        def __init__(self, start: int):
            self.count = start

        def __enter__(self) -> int:
            self.count += 1
            return self.count

        def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
            self.count += 10

    class Blocks(nn.Module):
        def forward(self, x):
            counted = Counted(1)
            with counted as n:
                x = x * n
            with torch.no_grad():
                x = x + 1
            with torch.autograd.profiler.record_function("label"):
                x = x + counted.count
            return x

    class Skipped(nn.Module):
        @torch.jit.unused
        def slow(self, x: torch.Tensor) -> torch.Tensor:
            return x.numpy()

        def forward(self, x, slow: bool = False):
            if slow:
                return self.slow(x)
            return x

    kinds = (Blocks, Skipped)
    return {kind.__name__: (kind, (x,)) for kind in kinds}


def programs_beyond_pytorch(torch: Any) -> dict[str, tuple[Any, tuple]]:
    """Modules that PyTorch refuses to script; it reads their archives."""
    return {**_of_bases(torch), **_of_loops(torch), **_of_modes(torch)}


def _bird(torch: Any) -> Any:
    """A class with a base, a property, a constant and a static method."""
    class Animal:
        def __init__(self, legs: int):
            self.legs = legs

        def walk(self) -> int:
            return self.legs

    class Bird(Animal):
        LIFT = 3

        def __init__(self):
            super().__init__(2)
            self.wings = 2

        def walk(self) -> int:
            return super().walk() + self.wings + self.LIFT

        @property
        def limbs(self) -> int:
            return self.legs + self.wings

        def both(self) -> int:
            return self.limbs * 2

        @staticmethod
        def half(x: torch.Tensor) -> torch.Tensor:
            return x / 2

    return Bird


def _of_bases(torch: Any) -> dict[str, tuple[Any, tuple]]:
    nn, x = torch.nn, torch.arange(6.0).reshape(2, 3) - 2
    Bird = _bird(torch)

    class Base(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)
            nn.init.constant_(self.linear.weight, 0.5)
            nn.init.constant_(self.linear.bias, 1.0)

        def forward(self, x):
            return self.linear(x)

        def shift(self, x, by: int):
            return x + by

    class Derived(Base):
        def shift(self, x, by: int):
            return super().shift(x, by) * 2

        def forward(self, x):
            return self.shift(super().forward(x), 3)

    class Inherits(nn.Module):
        def forward(self, x):
            bird = Bird()
            return x * bird.walk() + bird.both() + bird.half(x) + Bird.half(x)

    return {kind.__name__: (kind, (x,)) for kind in (Derived, Inherits)}


def _of_loops(torch: Any) -> dict[str, tuple[Any, tuple]]:
    nn, x = torch.nn, torch.arange(6.0).reshape(2, 3) - 2

    class ElseOfLoops(nn.Module):
        def forward(self, x, stop: int = 2):
            found = 0
            for i in range(4):
                for k in range(3):
                    if k == stop:
                        break
                else:
                    found += 10
                if i == 9:
                    break
            else:
                found += 1
            while found > 100:
                found -= 1
            else:  # noqa: PLW0120
                found += 5
            return x * found

    class Filters(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Identity(), nn.ReLU(), nn.Tanh()])

        def forward(self, x):
            even = [i * 2 for i in range(6) if i % 2 == 0 if i > 0]
            rows = torch.stack([row + 1 for row in x.unbind(0) if bool(row.sum() < 100)])
            outs = [layer(x) for layer in self.layers if isinstance(layer, nn.ReLU)]
            table = {"a": 1, "b": 2}
            return rows * sum(even) + outs[0] + len([k for k, v in table.items() if v > 1])

    kinds = (ElseOfLoops, Filters)
    return {kind.__name__: (kind, (x,)) for kind in kinds}


def _of_modes(torch: Any) -> dict[str, tuple[Any, tuple]]:
    nn, x = torch.nn, torch.arange(6.0).reshape(2, 3) - 2

    class GradModes(nn.Module):
        def forward(self, x):
            with torch.no_grad(), torch.enable_grad():
                y = x * 2
            with torch.set_grad_enabled(False):
                return y + 1

    return {"GradModes": (GradModes, (x,))}
