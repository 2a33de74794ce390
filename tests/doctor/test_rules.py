"""Each rule by its own programs: the mistake is named with its line, its twin and the suspicious
healthy programs are silent."""

from __future__ import annotations

import warnings

import pytest

from flambeau import doctor
from flambeau.doctor import programs
from flambeau.doctor.rules import all_rules


def watched(program: str, name: str) -> doctor.Doctor:
    watcher = doctor.Doctor(quiet=True)
    watcher.session.clock.spent_s = float("-inf")  # a busy machine must not end the watching
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with watcher:
            programs.run(program, name)
    assert not watcher.session.faults
    return watcher


@pytest.mark.parametrize("id", all_rules())
def test_broken(id: str) -> None:
    rule = all_rules()[id]
    watcher = watched(rule.broken, f"<doctor {id} broken>")
    findings = [f for f in watcher.findings if f.id == id]
    assert findings, f"not found; {[str(f) for f in watcher.findings]}"
    assert findings[0].place.line in programs.find_marked_lines(rule.broken)


@pytest.mark.parametrize("id", all_rules())
def test_fixed_and_healthy(id: str) -> None:
    rule = all_rules()[id]
    for kind, program in (("fixed", rule.fixed), *zip("ab", rule.healthy, strict=True)):
        watcher = watched(program, f"<doctor {id} {kind}>")
        assert not watcher.mistakes, [f.text() for f in watcher.mistakes]
    assert programs.find_marked_lines(rule.fixed) == []


@pytest.mark.parametrize("id", all_rules())
def test_texts(id: str) -> None:
    """Prose is there, and short enough for its place."""
    rule = all_rules()[id]
    assert rule.needs
    assert len(rule.title) < 120
    assert rule.why.endswith((".", ")"))
    assert not rule.fix.endswith(".")


def test_the_handbook_is_fresh() -> None:
    from flambeau.doctor.handbook import FILE, write_handbook

    assert FILE.read_text() == write_handbook(), "run `python -m flambeau.doctor.handbook`"


def test_edited() -> None:
    program = "\nfor i in x:\n    step()\n    zero()\n"
    assert programs.edit(program, {"step()": "zero()\nstep()", "zero()": ""}) == (
        "\nfor i in x:\n    zero()\n    step()\n")
    with pytest.raises(ValueError, match="not in the program: 'stop"):
        programs.edit(program, {"stop()": ""})
