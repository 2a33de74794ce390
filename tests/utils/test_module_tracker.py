"""ModuleTracker: names of running modules in forward and backward."""

from __future__ import annotations

from importlib import import_module


def test_parents_in_forward_and_backward(torch):
    tracker_of = import_module(torch.__name__ + ".utils.module_tracker").ModuleTracker
    seen = []

    class Part(torch.nn.Module):
        def forward(self, x):
            y = x["a"] * 2
            seen.append((sorted(tracker.parents), tracker.is_bw))
            y.register_hook(lambda g: seen.append((sorted(tracker.parents), tracker.is_bw)))
            return {"a": y * y}

    class Whole(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = torch.nn.ModuleList([Part(), Part()])

        def forward(self, x):
            for part in self.parts:
                x = part(x)
            return x["a"]

    names = [["Global", "Whole", f"Whole.parts.{i}"] for i in (0, 1)]
    with tracker_of() as tracker:
        for _ in range(2):
            Whole()({"a": torch.ones(2, requires_grad=True)}).sum().backward()
            assert seen == [(names[0], False), (names[1], False), (names[1], True),
                            (names[0], True)]
            assert tracker.parents == {"Global"}
            assert not tracker.is_bw
            seen.clear()
