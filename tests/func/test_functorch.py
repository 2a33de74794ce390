"""torch._functorch: modules as functions of their state, and torch.func by functorch's names."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture
def functorch(torch):
    def module(name):
        return importlib.import_module(f"{torch.__name__}._functorch.{name}")

    return module


def test_a_module_as_a_function_of_its_parameters(torch, functorch):
    layer, x = torch.nn.Linear(3, 2), torch.ones(4, 3)
    func, params = functorch("make_functional").make_functional(layer)
    assert torch.equal(func(params, x), layer(x))
    assert func([p * 0 for p in params], x).abs().sum() == 0
    assert [p.requires_grad for p in params] == [True, True]
    _, params = functorch("make_functional").make_functional(layer, True)
    assert [p.requires_grad for p in params] == [False, False]
    grads = torch.func.grad(lambda p: func(p, x).sum())(params)
    assert torch.equal(grads[0], torch.full((2, 3), 4.0))


def test_shared_parameters_come_once(torch, functorch):
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    net[1].weight = net[0].weight
    func, params = functorch("make_functional").make_functional(net)
    assert len(params) == 3
    x = torch.randn(1, 2)
    assert torch.allclose(func(params, x), net(x))


def test_buffers_are_arguments_too(torch, functorch):
    net, x = torch.nn.BatchNorm1d(3).eval(), torch.randn(4, 3)
    module = functorch("make_functional")
    with pytest.raises(RuntimeError, match="has buffers"):
        module.make_functional(net)
    func, params, buffers = module.make_functional_with_buffers(net)
    assert len(buffers) == 3
    assert torch.equal(func(params, buffers, x), net(x))


def test_an_ensemble_runs_under_vmap(torch, functorch):
    nets, x = [torch.nn.Linear(3, 2) for _ in range(4)], torch.randn(5, 3)
    func, params, buffers = functorch("make_functional").combine_state_for_ensemble(nets)
    actual = torch.vmap(func, (0, 0, None))(params, buffers, x)
    assert torch.allclose(actual, torch.stack([net(x) for net in nets]))
    with pytest.raises(RuntimeError, match="at least one model"):
        functorch("make_functional").combine_state_for_ensemble([])


def test_chunks_of_vmap(torch, functorch):
    x = torch.randn(5, 3)
    for chunks in (1, 2, 5, 7):
        actual = functorch("apis").chunk_vmap(torch.sum, chunks=chunks)(x)
        assert torch.allclose(actual, x.sum(1))


def test_old_names_warn(torch, functorch):
    with pytest.warns(FutureWarning, match="`functorch.grad` is deprecated"):
        grad = functorch("deprecated").grad(torch.sin)
    assert grad(torch.tensor(0.0)) == 1


def test_batch_norm_without_running_statistics(torch):
    net = torch.nn.Sequential(torch.nn.BatchNorm1d(3))
    assert torch.func.replace_all_batch_norm_modules_(net) is net
    assert net[0].running_mean is None
    assert not net[0].track_running_stats


def test_functions_without_mutations(torch):
    def write(x):
        x.view(-1).add_(1)
        return x * 2

    x = torch.zeros(2, 2)
    for remove in ("mutations", "mutations_and_views"):
        y = torch.func.functionalize(write, remove=remove)(x)
    assert x.tolist() == [[2, 2], [2, 2]]
    assert y.tolist() == [[4, 4], [4, 4]]
    with pytest.raises(RuntimeError, match="received invalid argument for remove=views"):
        torch.func.functionalize(write, remove="views")


def test_the_experimental_package(torch):
    package = "functorch" if torch.__name__ == "torch" else "flambeau._functorch.package"
    experimental = importlib.import_module(f"{package}.experimental")
    assert torch.equal(experimental.chunk_vmap(torch.sin, chunks=2)(torch.ones(4)),
                       torch.ones(4).sin())
    assert experimental.functionalize is torch.func.functionalize
