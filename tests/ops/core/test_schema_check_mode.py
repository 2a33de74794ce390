"""SchemaCheckMode: what operators write and return, and operators whose schemas are wrong."""

import itertools

import pytest

_count = itertools.count()


@pytest.fixture
def mode(torch):
    if torch.__name__ == "flambeau":
        from flambeau._subclasses.schema_check_mode import SchemaCheckMode
    else:
        from torch._subclasses.schema_check_mode import SchemaCheckMode
    return SchemaCheckMode()


@pytest.fixture
def define(torch):
    lib = torch.library.Library(f"schemas{next(_count)}", "FRAGMENT")

    def add(schema, kernel):
        lib.define(schema)
        name = schema.partition("(")[0]
        lib.impl(name, kernel, "CPU")
        return getattr(getattr(torch.ops, lib.ns), name).default

    yield add
    lib._destroy()


def test_operators_writes_and_views_are_listed(torch, mode):
    x = torch.rand(3, 3)
    with mode:
        x.relu().sin()
        x.add_(1)
        x.t()
        torch.mul(x, x, out=torch.empty(3, 3))
    assert mode.ops[:3] == ["aten::relu", "aten::sin", "aten::add_"]
    assert ("aten::add_", "input") in mode.mutated
    assert ("aten::t", "input", "output_0") in mode.aliasing
    mode.reset_cache()
    assert mode.ops == mode.mutated == mode.aliasing == []


def test_one_tensor_twice(torch, mode):
    x = torch.rand(3)
    with mode:
        x.mul_(x)
    assert {name for _, name in mode.mutated} == {"input", "other"}


@pytest.mark.parametrize(("schema", "kernel", "text"), [
    ("foo(Tensor x) -> Tensor", lambda x: x.sin_().clone(), "Argument x is not defined as mutable"),
    ("foo(Tensor x) -> Tensor", lambda x: x[:1], "Argument x is not defined to alias output"),
    ("foo(Tensor(a) x) -> Tensor(a)", lambda x: x, "not allowed to directly return inputs"),
    ("foo(Tensor x) -> (Tensor, Tensor)", lambda x: (lambda y: (y, y[:]))(x.clone()),
     "Outputs 0 and 1 alias unexpectedly"),
])
def test_wrong_schemas(torch, mode, define, schema, kernel, text):
    op = define(schema, kernel)
    with pytest.raises(RuntimeError, match=text), mode:
        op(torch.rand(2))


def test_batch_norm_writes_its_statistics_in_training_only(torch, mode):
    layer = torch.nn.BatchNorm1d(2)
    with mode:
        layer(torch.rand(3, 2))
    assert layer.running_mean.abs().sum() > 0
    layer.eval()
    mode.reset_cache()
    with mode:
        layer(torch.rand(3, 2))
    assert mode.mutated == []
