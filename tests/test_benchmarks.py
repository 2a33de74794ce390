"""The benchmark's cases run on flambeau, and its tables find their places in the pages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau

ROOT = Path(__file__).resolve().parent.parent
MODULES = ("cases", "table", "models", "compiled_table", "compiled_measure", "measure", "eager",
           "processes", "turns", "compiled", "examples", "threads", "scripts",
           "scaling_model")


@pytest.fixture(scope="module")
def benchmarks():
    """The modules `cases` and `table` of benchmarks/."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield [__import__(name) for name in MODULES[:2]]
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
        for name in MODULES:
            sys.modules.pop(name, None)


def test_small_cases_run(benchmarks):
    cases, _ = benchmarks
    for case in cases.GROUPS["small"].values():
        case.prepare(flambeau)()


@pytest.mark.parametrize("name", ["tiny_mlp", "mlp"])
def test_a_step_trains(benchmarks, name):
    cases, _ = benchmarks
    work = cases.GROUPS["steps"][name].prepare(flambeau)
    work()
    work()


def test_the_scaling_model_at_its_limits(benchmarks):
    from scaling_model import Network, Step

    fast, slow = Network(0, 1e15), Network(1e-4, 1e8)
    step = Step(0.1, 40e6, 10e6)
    assert sum(step.buckets()) == 40e6
    assert step.seconds(1, slow) == 0.1
    assert step.seconds(1024, fast) == pytest.approx(0.1)
    communicating = Step(1e-9, 40e6, 10e6)
    reduced = sum(slow.all_reduce_s(size, 4) for size in step.buckets())
    assert communicating.seconds(4, slow) == pytest.approx(reduced)
    # Backward hides what it can: the sum is not reached.
    assert max(0.1, reduced) < step.seconds(4, slow) < 0.1 + reduced
    assert slow.all_reduce_s(4e7, 2) == pytest.approx(0.4 + 2e-4)


def test_every_program_of_the_scripts_benchmark_is_there(benchmarks):
    import scripts

    files = {path.stem for path in (ROOT / "benchmarks" / "scripts").glob("*.py")} - {"data"}
    assert set(scripts.SCRIPTS) == files


def test_the_scripts_table_says_how_many_times_faster(benchmarks):
    import scripts

    row = {"torch": 6.0, "flambeau": 1.5, "cold": 3.0}
    assert scripts.table({"gan": row}).splitlines()[-1] == (
        f"| {scripts.SCRIPTS['gan']} | 6 s | 1.5 s | 4.0 | 3 s |"
    )


def test_a_row_by_threads(benchmarks):
    from threads import operators, row

    lines = {("torch", 2): ("sum", 4e-3), ("flambeau", 2): ("sum", 2e-3),
             ("torch", 8): ("sum", 3e-4), ("flambeau", 8): ("sum", 2e-4)}
    assert row(lines, [2, 8]) == "| sum | 2 ms, 2.00 | 200 us, 1.50 |"
    operators(flambeau)["x + x, 64K"]()()


def test_pages_have_the_marks(benchmarks):
    import scripts

    _, table = benchmarks
    for page, marks in (("docs/speed.md", table), ("README.md", scripts)):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert text.count(marks.BEGIN) == text.count(marks.END) == 1
        assert text.index(marks.BEGIN) < text.index(marks.END)


def test_a_row_that_did_not_run_says_so(benchmarks):
    _, table = benchmarks
    results = {"torch": {"add": 2e-6, "exp": 1.0}, "flambeau": {"add": 1e-6, "exp": None}}
    assert table.row("`a + b`", "add", results) == "| `a + b` | 2 us | 1 us | 2.00 |  |"
    assert table.row("`exp`", "exp", results) == "| `exp` | 1 s | does not run |  |  |"


def found_by(engine: str, job: str, tmp_path: Path) -> dict:
    """What compiled_measure.py prints about a job, in a process of its own."""
    from compiled import measured

    result = measured(job, {engine: sys.executable}, tmp_path, quick=True)[engine]
    assert result is not None
    return result


@pytest.mark.parametrize("engine", ["eager", "compiled"])
def test_a_step_is_measured(benchmarks, engine, tmp_path):
    result = found_by(engine, "step:tiny_mlp", tmp_path)
    assert 0 < result["seconds"] < 10
    assert 0 < result["compiling"] <= result["first"]
    assert 0 < result["own memory"] < result["memory"]


@pytest.mark.parametrize("job", ["inference:mlp:1,4", "matmul:64"])
def test_other_jobs_are_measured(benchmarks, job, tmp_path):
    result = found_by("compiled", job, tmp_path)
    assert all(value > 0 for value in result.values())
    assert set(result) >= ({"1", "4"} if "inference" in job else {"seconds", "peak"})


def test_a_compiled_step_knows_its_limits(benchmarks):
    from compiled_measure import figures_of

    double = flambeau.compile(lambda x: 2 * x, mode="now")
    for _ in range(4):
        double(flambeau.ones(4096))
    result = figures_of(double)
    assert result["kernels"] == 1
    assert result["bytes"] == 2 * 4 * 4096
    assert 0 <= result["least"] <= result["measured"] + 1e-6
    lost = sum(result["lost"].values())
    assert result["least"] + lost <= 1.5 * result["measured"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["char_gpt", "lstm"])
def test_the_models_compile(benchmarks, name, tmp_path):
    assert found_by("compiled", f"step:{name}", tmp_path)["first"] is not None


def test_tables_leave_out_what_was_not_measured(benchmarks):
    import compiled_table

    step = {"torch": {"seconds": 3e-3, "memory": 200.0}, "jax": {"seconds": 2e-3},
            "compiled": {"seconds": 1e-3, "cold first": 0.5, "cold memory": 100.0}}
    machine = {"torch": "2", "python": "3", "processor": "p", "cores": "2", "date": "d"}
    results = {"jobs": {"step:mlp": step, "matmul:512": {"compiled": {}}}, "machine": machine,
               "rounds": 1, "parts": ["steps", "inference", "matmul"],
               "missing": ["torch.compile: no compiler"]}
    text = compiled_table.markdown(results)
    assert "| 3 ms | 2 ms | 1 ms | 3.00 | 2.00 | 1.3 |" in text
    assert "Left out: torch.compile: no compiler." in text
    assert "Inference" not in text
    assert "does not run" in text


def test_the_pages_have_the_marks(benchmarks):
    import compiled_table

    for page in ("README.md", "docs/speed.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert text.count(compiled_table.BEGIN) == text.count(compiled_table.END) == 1


def test_the_examples_are_measured_and_compared(benchmarks):
    import examples

    # In a process of its own, which imports flambeau by PyTorch's name.
    code = "import examples; examples.run('compiled', 'autograd_tour', 8, turns=False)"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "benchmarks", env=env,
                          capture_output=True, text=True, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    assert len(result["losses"]) == 8
    assert result["seconds"] > 0
    curve = {"losses": [1.0] * 10 + [2.0] * 190, "seconds": 3e-3}
    other = {"losses": [1.0] * 10 + [2.02] * 190, "seconds": 1e-3}
    machine = {"torch": "2", "python": "3", "processor": "p", "date": "d"}
    results = {"mlp": {"torch": curve, "eager": curve, "compiled": other}}
    text = examples.markdown(results, machine)
    assert "| 3 ms | 3 ms | 1 ms | 3.00 | 3.00 | 0e+00 | 1e-02 | 1e-02 |" in text
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    assert page.count(examples.BEGIN) == page.count(examples.END) == 1


def test_processes_take_turns(benchmarks, tmp_path):
    """One is at work at a time; one that fails says why, and the others go on."""
    from turns import Process, all_in_turn

    text = (
        "import sys; from turns import wait_for_turn as w; from pathlib import Path\n"
        "log = Path(sys.argv[2])\n"
        "for i in range(3):\n"
        "    w(); log.open('a').write(f'{sys.argv[1]}{i} begin\\n')\n"
        "    if sys.argv[1] == 'b' and i == 1: raise ValueError('no more')\n"
        "    log.open('a').write(f'{sys.argv[1]}{i} end\\n')\n"
        "print('done', sys.argv[1])\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "benchmarks")}
    processes = [Process([sys.executable, "-c", text, name, str(tmp_path / "log")], env, 60.0)
             for name in "abc"]
    all_in_turn(processes)
    lines = (tmp_path / "log").read_text().split("\n")[:-1]
    turns = [f"{name}{i}" for i in range(3) for name in "abc" if (name, i) != ("b", 2)]
    assert lines == [f"{turn} {what}" for turn in turns for what in ("begin", "end")
                     if (turn, what) != ("b1", "end")]
    assert [process.failed for process in processes] == [False, True, False]
    assert "no more" in processes[1].errors
    assert processes[2].lines == ["done c\n"]
