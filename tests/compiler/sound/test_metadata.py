"""Steps that ask for what no guard looks at: versions, places in memory, bases, sameness."""

from __future__ import annotations

import pytest

import flambeau as torch

QUESTIONS = (
    "x._version", "x[1:]._version", "x.detach()._version", "x.storage_offset()",
    "x[1:].storage_offset()", "x.T.storage_offset()", "list(map(Tensor.storage_offset, [x]))",
    "x._base is None", "x._base is w", "x[1:]._base is x", "x is w", "x in {w: 1}", "x in [w]",
    "[x] == [w]", "(x, 1) == (w, 1)", "len({x, w})", "len(set([x, w]))", "{x: 1, w: 2}[w]",
    "[w, x].index(x)", "{w: 1}.get(x)", "x.is_set_to(w)", "x.data_ptr() == w.data_ptr()",
    "x.untyped_storage().nbytes()",
)


def run(question: str, options: dict | None) -> list:
    """What a step logs and gives that asks something of its argument, and goes by the answer."""
    torch.manual_seed(0)
    w, data, log = torch.randn(3, 3), torch.randn(30, 3), []
    space = {"Tensor": torch.Tensor, "w": w, "log": log}
    exec(f"def step(x):\n    log.append({question})\n    return x * 2 if {question} else -x", space)
    step = space["step"]
    if options is not None:
        step = torch.compile(step, options={"mode": "now", **options}, backend="evaluate")
    written = torch.randn(3, 3).add_(1)
    calls = [torch.randn(3, 3) for _ in range(4)]
    calls += [data[3:6], data[6:9], w, w.view(3, 3), written, w[:]]
    return [(_attempt(step, x), *log[-1:]) for x in calls]


def _attempt(step, x: torch.Tensor) -> object:
    try:
        return step(x).tolist()
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_about_tensors(question, follow):
    assert run(question, {"follow": follow}) == run(question, None)
