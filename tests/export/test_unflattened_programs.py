"""torch.export.unflatten: an exported program as the tree of modules that it was."""

from __future__ import annotations

import pytest


class Trees:
    """Modules in either library."""

    def __init__(self, torch):
        nn = torch.nn

        class Scale(nn.Module):
            def __init__(self):
                super().__init__()
                self.factor = nn.Parameter(torch.full((2,), 3.0))

            def forward(self, x):
                return x * self.factor, x + 1

        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale, self.bias = Scale(), nn.Parameter(torch.ones(2))
                self.again = self.scale
                self.blocks = nn.ModuleList([nn.Linear(2, 2), nn.ReLU()])

            def forward(self, x):
                a, b = self.scale(x)
                c, _ = self.again(a + self.scale.factor)
                for block in self.blocks:
                    c = block(c)
                return {"out": c + b + self.bias}

        class Named(nn.Module):
            def forward(self, pair, scale):
                return {"sum": pair[0] + pair[1], "scaled": pair[0] * scale["by"]}

        class Preserved(nn.Module):
            def __init__(self):
                super().__init__()
                self.named = Named()

            def forward(self, x, y):
                out = self.named((x, y), scale={"by": y})
                return out["sum"] - out["scaled"]

        self.outer, self.named, self.preserved = Outer, Named, Preserved


def test_the_tree_computes_and_has_the_modules_names(torch):
    model, x = Trees(torch).outer(), torch.ones(3, 2)
    tree = torch.export.unflatten(torch.export.export(model, (x,)))
    assert torch.allclose(tree(x)["out"], model(x)["out"])
    names = [n for n, _ in model.named_modules(remove_duplicate=False)]
    assert [n for n, _ in tree.named_modules(remove_duplicate=False)] == names
    assert tree.state_dict().keys() == model.state_dict().keys()
    assert tree.scale.factor is tree.again.factor
    assert torch.allclose(getattr(tree.blocks, "0")(x), model.blocks[0](x))
    assert "placeholder" in str(getattr(tree.blocks, "0").graph)


def test_a_preserved_signature_lets_a_module_be_replaced(torch):
    kinds = Trees(torch)
    x, y = torch.ones(2), torch.full((2,), 3.0)
    program = torch.export.export(kinds.preserved(), (x, y),
                                  preserve_module_call_signature=("named",))
    tree = torch.export.unflatten(program)
    assert tree(x, y).tolist() == [1, 1]

    class Other(torch.nn.Module):
        def forward(self, pair, scale):
            return {"sum": pair[0], "scaled": -scale["by"]}

    tree.named = Other()
    assert tree(x, y).tolist() == [4, 4]


def test_other_arguments_need_an_adapter(torch):
    model, x = Trees(torch).outer(), torch.ones(3, 2)
    program = torch.export.export(model, (x,))
    with pytest.raises(TypeError, match="There is no flat args adapter"):
        torch.export.unflatten(program)([x])

    class First(torch.export.FlatArgsAdapter):
        def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
            return input_args[:1]

    adapted = torch.export.unflatten(program, First())
    assert torch.allclose(adapted([x, x])["out"], model(x)["out"])
