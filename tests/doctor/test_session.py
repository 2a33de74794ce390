"""A session leaves no trace: code, bits, random state; and what is intended is not told."""

from __future__ import annotations

import json

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import doctor, nn
from flambeau.doctor.observers import operators, steps
from flambeau.doctor.session import Session


def train(steps: int = 6, seed: int = 0) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3),
                        nn.Linear(8, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(net(torch.randn(16, 4)), torch.randint(0, 2, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, *net.parameters(), *net.buffers(), torch.rand(3)]


def patched() -> list[object]:
    session = Session()
    own = [*steps.list_rare_targets(session), *steps.step_targets(session)]
    targets = [*own, *operators.iterate_targets(session)]
    return [function for function, _ in targets]


def test_off_is_the_functions_own_code() -> None:
    functions = patched()
    assert len(functions) > 50
    with doctor(quiet=True):  # what is written at its first call is written now
        train()
    before = [(f.__code__, f.__defaults__, f.__kwdefaults__) for f in functions]
    with doctor(quiet=True):
        train()
        assert nn.Module.__call__.__code__ is not before[functions.index(nn.Module.__call__)][0]
    assert [(f.__code__, f.__defaults__, f.__kwdefaults__) for f in functions] == before
    from flambeau.optim import optimizer

    assert not optimizer._global_optimizer_pre_hooks
    assert not optimizer._global_optimizer_post_hooks


def test_same_bits() -> None:
    plain = train()
    with doctor(quiet=True) as d:
        watched = train()
    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))
    assert d.findings == []


def test_sessions_do_not_nest_and_errors_restore() -> None:
    code = nn.Module.__call__.__code__
    with pytest.raises(RuntimeError, match="nest"), doctor(quiet=True), doctor(quiet=True):
        pass
    with pytest.raises(ZeroDivisionError), doctor(quiet=True) as d:
        _ = 1 / 0
    assert nn.Module.__call__.__code__ is code
    assert "ZeroDivisionError" in d.summary
    with pytest.raises(ValueError, match="no such check"):
        doctor(off=["no-such-check"])


def wrong() -> None:
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(4):
        net(torch.ones(2, 4)).mean().backward()
        optimizer.step()


def wrong_and_said() -> None:
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(4):
        net(torch.ones(2, 4)).mean().backward()  # doctor: ok no-zero-grad
        optimizer.step()


@doctor.intended("no-zero-grad")
def wrong_and_intended() -> None:
    wrong()


def ids(function, **options) -> list[str]:
    with doctor(quiet=True, **options) as d:
        function()
    return [f.id for f in d.findings]


def test_intended() -> None:
    assert ids(wrong) == ["no-zero-grad"]
    assert ids(wrong_and_said) == []
    assert ids(wrong_and_intended) == []
    assert ids(wrong, off=["no-zero-grad"]) == []

    def inside() -> None:
        with doctor.intended("no-zero-grad"):
            wrong()

    assert ids(inside) == []
    with pytest.raises(ValueError, match="no such check"):
        doctor.intended("no-zero-gard")


def test_strict_raises_at_the_line() -> None:
    with pytest.raises(doctor.Mistake) as caught, doctor(quiet=True, strict=True):
        wrong()
    assert caught.value.finding.id == "no-zero-grad"


def test_finding_text_is_five_lines_at_most(capsys) -> None:
    with doctor() as d:
        wrong()
    text = capsys.readouterr().err
    finding = d.findings[0]
    assert len(finding.text().splitlines()) <= 5
    assert finding.text() in text
    assert text.splitlines()[1].startswith("tests/doctor/test_session.py:")
    assert text.splitlines()[-1].startswith("doctor: 1 certain; ")
    assert "optimizer.zero_grad() before backward()" in finding.fix


def test_json_and_page(tmp_path) -> None:
    with doctor(quiet=True) as d:
        wrong()
    data = json.loads(d.json(tmp_path / "out.json"))
    assert json.loads((tmp_path / "out.json").read_text()) == data
    assert set(data) == {
        "version", "flambeau", "argv", "passes", "updates", "seconds", "seconds_watching",
        "suspended_at", "error", "findings", "passed", "undecided", "off", "curves",
    }
    (finding,) = data["findings"]
    assert set(finding) == {"id", "level", "what", "evidence", "places", "fix", "steps", "silence"}
    assert finding["level"] == "certain"
    assert finding["places"][0]["text"].endswith(".backward()")
    d.html(tmp_path / "out.html")
    page = (tmp_path / "out.html").read_text()
    assert "no-zero-grad" in page
    assert "http" not in page.replace("http-equiv", "")
    assert "<!--" not in page


def test_clock_suspends_what_is_dear(monkeypatch) -> None:
    monkeypatch.setattr("flambeau.doctor.clock.GRACE_S", 0.0)
    monkeypatch.setattr("flambeau.doctor.clock.SHARE", 0.0)
    with doctor(quiet=True) as d:
        train(12)
        assert not d.session.watching
    assert d.session.clock.suspended_at
    assert "suspended" in d.summary


def test_a_rule_that_fails_is_left_out(monkeypatch) -> None:
    from flambeau.doctor.rules.losses.loss_broadcast import LossBroadcast

    def broken(self, call) -> None:
        raise KeyError("x")

    monkeypatch.setattr(LossBroadcast, "on_loss", broken)
    with doctor(quiet=True) as d:
        train()
    assert "KeyError" in d.session.undecided()["loss-broadcast"]


def test_compiled_steps_run_plain_while_watched() -> None:
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    seen = []

    @torch.compile(mode="now")
    def step(x):
        seen.append(1)
        loss = net(x).mean()
        loss.backward()
        optimizer.step()
        return loss

    with doctor(quiet=True) as d:
        for _ in range(5):
            step(torch.ones(2, 4))
    assert len(seen) == 5
    assert [f.id for f in d.findings] == ["no-zero-grad"]


def test_check() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    before = net.state_dict()["0.weight"].clone()
    state = torch.get_rng_state()
    batch = torch.zeros(8, 4), torch.arange(8) % 3
    findings = doctor.check(net, optimizer, nn.CrossEntropyLoss(), batch)
    assert [f.id for f in findings] == ["softmax-before-cross-entropy"]
    assert torch.equal(before, net.state_dict()["0.weight"])
    assert torch.equal(state, torch.get_rng_state())


def test_trainer() -> None:
    from flambeau.train import Trainer

    net = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    trainer = Trainer(net, optimizer, "cross_entropy", doctor=True)
    trainer.fit((torch.randn(64, 4), torch.arange(64) % 3), epochs=2)
    assert [f.id for f in trainer.doctor.mistakes] == ["softmax-before-cross-entropy"]
    trainer.fit((torch.randn(64, 4), torch.arange(64) % 3), epochs=1)


def test_explain() -> None:
    assert doctor.explain("eval-forgotten").startswith("### eval-forgotten")
    with pytest.raises(ValueError, match="did you mean no-zero-grad"):
        doctor.explain("no-zero-gard")


def test_what_was_not_observed_is_no_evidence() -> None:
    """An optimizer whose steps fell into a rest is not one that makes no step."""
    first, second = (nn.Linear(2, 1) for _ in range(2))
    with doctor.Doctor(quiet=True) as watcher:
        early = torch.optim.SGD(first.parameters(), lr=0.1)
        late = torch.optim.SGD(second.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.ExponentialLR(late, 0.9)
        for model, optimizer in ((first, early), (second, late)):
            for _ in range(12):
                optimizer.zero_grad()
                model(torch.ones(4, 2)).square().mean().backward()
                optimizer.step()
            watcher.session.rest()
        schedule.step()
    assert not [f for f in watcher.mistakes if f.id == "scheduler-without-effect"]


def test_a_module_that_hashes_by_what_it_sets_later() -> None:
    class Metric(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.states = ["total"]
            self.scale = nn.Linear(1, 1)

        def __hash__(self) -> int:
            return hash(tuple(self.states))

        def forward(self, x):
            return self.scale(x)

    with doctor(quiet=True) as d:
        metric = Metric()
        metric(torch.ones(2, 1)).sum().backward()
    assert d.session.built_at.get(metric) is not None
    assert not d.session.faults
