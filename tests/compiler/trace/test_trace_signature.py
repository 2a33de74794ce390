"""A step that two calls of an earlier process agreed on is recorded once; bits stay the same."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.compiler.trace.trace_signature import make_signature
from flambeau.compiler.trace.trace import Trace

SOURCE = """
import flambeau as torch
from flambeau import nn
import flambeau.nn.functional as F

class Settings:
    scale = 1.0

settings = Settings()

def training():
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(8, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    def step(x, y):
        optimizer.zero_grad()
        out = net(x)
        loss = F.cross_entropy(out, y) * settings.scale
        loss.backward()
        optimizer.step()
        return loss, out.detach()
    return net, optimizer, step
"""  # noqa: E501


@pytest.fixture(autouse=True)
def _no_signatures(tmp_path, monkeypatch):
    """There are some here, in a cache of the test's own."""
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path / "cache"))


def module(tmp_path, source=SOURCE, name="steps"):
    path = tmp_path / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(source, calls=6, mode="now"):
    """What a training gives, bit by bit, and after how many calls there was a program."""
    net, optimizer, step = source.training()
    step = torch.compile(step, mode=mode)
    x, y = torch.randn(12, 8), torch.randint(3, (12,))
    arrays, first = [], 0
    for k in range(calls):
        arrays += [t.detach().numpy().copy() for t in step(x, y)]
        arrays += [p.grad.numpy().copy() for p in net.parameters()]
        first = first or (k + 1 if step._programs else 0)
    arrays += [t.numpy().copy() for t in net.state_dict().values()]
    arrays += [v.numpy().copy() for s in optimizer.state.values() for v in s.values()
              if isinstance(v, torch.Tensor)]
    return arrays, first


def same(a, b):
    return len(a) == len(b) and all(map(np.array_equal, a, b))


def test_a_signature_saves_a_call_and_changes_no_bit(tmp_path):
    steps = module(tmp_path)
    cold, calls = run(steps)
    assert calls == 1
    warm, calls = run(steps)
    assert calls == 1
    assert same(cold, warm)


@pytest.mark.parametrize("settled", [False, True])
def test_of_code_that_has_run_before_the_first_call_is_recorded(tmp_path, settled):
    net = module(tmp_path).training()[0].eval()
    x, wanted = torch.randn(12, 8), []
    for needed in (3 - settled, 1):  # without a signature, and with it
        step = torch.compile(lambda x: net(x), options={"settled": settled})
        with torch.no_grad():
            for calls in range(1, 6):
                wanted.append(step(x))
                pending = step._specializations.list_builds()
                assert bool(step._programs or pending) is (calls >= needed)
                assert all(job.done.wait(60) for job in pending)
    assert all(torch.allclose(y, wanted[0], atol=1e-6) for y in wanted)


@pytest.mark.parametrize("mode", ["now", None])
def test_a_program_that_was_kept_gives_the_first_calls_results_in_either_mode(tmp_path, mode):
    steps = module(tmp_path)
    cold, _ = run(steps)
    warm, calls = run(steps, mode=mode)
    assert calls == 1
    assert same(cold, warm)


def test_a_kept_program_is_known_before_the_first_call(tmp_path):
    source = module(tmp_path)
    x, y = torch.randn(12, 8), torch.randint(3, (12,))

    def compile_step():
        net, optimizer, step = source.training()
        return torch.compile(step, mode="now")

    step = compile_step()
    assert not step.is_cached(x, y)
    for _ in range(4):
        step(x, y)
    assert compile_step().is_cached(x, y)
    assert not compile_step().is_cached(x[:5], y[:5])


def test_what_was_kept_of_another_step_costs_nothing_but_a_plain_call(tmp_path):
    """The step's code is the same, what it reaches is not: the first call is eager, and right."""
    steps = module(tmp_path)
    run(steps)
    x, y = torch.randn(12, 8), torch.randint(3, (12,))
    results = []
    for compiled in (False, True):
        torch.manual_seed(3)
        net, optimizer, step = steps.training()
        optimizer.param_groups[0]["weight_decay"] = 0.1
        step = torch.compile(step) if compiled else step
        losses = [step(x, y)[0].item() for _ in range(3)]
        results.append([*losses, *(p.detach().sum().item() for p in net.parameters())])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5, atol=1e-6)


def test_without_a_cache_every_run_has_the_same_bits(tmp_path, monkeypatch):
    steps = module(tmp_path)
    cold, _ = run(steps)
    monkeypatch.setenv("FLAMBEAU_CACHE_SIZE", "0")
    without, calls = run(steps)
    assert calls == 1
    assert same(cold, without)


def test_the_first_call_has_the_programs_results(tmp_path, monkeypatch):
    from flambeau.compiler.driver import installation

    steps, seen = module(tmp_path), []
    original = installation.commit
    monkeypatch.setattr(
        installation, "commit", lambda *results: (seen.append(1), original(*results))
    )
    net, _, step = steps.training()
    eager_net, _, eager = steps.training()
    step = torch.compile(step, mode="now")
    x, y = torch.randn(12, 8), torch.randint(3, (12,))
    state = torch.get_rng_state()
    results = [step(x, y) for _ in range(3)]
    torch.set_rng_state(state)
    wanted = [eager(x, y) for _ in range(3)]
    assert seen == [1]
    for actual, other in zip(results, wanted, strict=True):
        for a, b in zip(actual, other, strict=True):
            assert a.requires_grad == b.requires_grad
            assert np.allclose(a.detach().numpy(), b.detach().numpy(), atol=1e-6)
    for p, q in zip(net.parameters(), eager_net.parameters(), strict=True):
        assert np.allclose(p.detach().numpy(), q.detach().numpy(), atol=1e-5)
        assert np.allclose(p.grad.numpy(), q.grad.numpy(), atol=1e-5)


def test_another_text_of_the_file_has_no_signature(tmp_path):
    run(module(tmp_path))
    assert run(module(tmp_path, SOURCE + "\n# other\n"), mode=None)[1] != 1


def test_what_changes_between_the_calls_is_seen_all_the_same(tmp_path):
    steps = module(tmp_path)
    run(steps)
    net, _, step = steps.training()
    plain_net, _, plain = steps.training()
    step = torch.compile(step, mode="now")
    x, y = torch.randn(12, 8), torch.randint(3, (12,))
    for k in range(6):
        steps.settings.scale = 1.0 + k
        state = torch.get_rng_state()
        loss = step(x, y)[0].item()
        torch.set_rng_state(state)
        assert loss == pytest.approx(plain(x, y)[0].item(), rel=1e-4)
    assert "Python is skipped" in step.explain()  # the scale became an input


def test_writing_to_an_argument_has_no_signature(tmp_path):
    def step(x):
        x.add_(1.0)
        return x * 2

    for _ in range(2):
        compiled = torch.compile(step, mode="now")
        x = torch.zeros(5)
        for k in range(4):
            assert compiled(x).tolist() == [2.0 * (k + 1)] * 5
        assert compiled._programs
        assert not compiled.is_cached(x)


def test_a_function_without_a_file_has_no_signature():
    space = {"torch": torch, "nn": nn}
    exec("def double(x):\n    return x * 2\n", space)
    assert make_signature(Trace(), space["double"]) is None
