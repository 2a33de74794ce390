"""Mistakes that are read in the source are told where their lines run, and not elsewhere."""

from __future__ import annotations

import warnings

import pytest

from flambeau import doctor
from flambeau.doctor import programs

LOOP = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
{before}
for step in range(3):
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {inside}
"""
FUNCTION = """
def clear(optimizer, never=False):
    {line}
    return optimizer
"""


def ids(program: str, name: str) -> list[tuple[str, int]]:
    """The mistakes of a program, with their lines from the end of the prelude."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with doctor.Doctor(quiet=True) as watcher:
            programs.run(program, f"<doctor executed {name}>")
    first = len(programs.PRELUDE.splitlines())
    return [(f.id, f.place.line - first) for f in watcher.mistakes]


@pytest.mark.parametrize(
    ("name", "before", "inside", "line"),
    [
        ("never called", FUNCTION.format(line="optimizer.zero_grad"), "pass", None),
        ("called", FUNCTION.format(line="optimizer.zero_grad"), "clear(optimizer)", 6),
        ("a branch not taken", "", "if step > 5: optimizer.zero_grad", None),
        ("a branch not taken, and passed",
         FUNCTION.format(line="if never: optimizer.zero_grad"), "clear(optimizer)", None),
        ("passed", "F.relu(x)", "pass", 4),
        ("in the loop", "", "optimizer.zero_grad", 10),
        ("in a loop over a loader", "", "pass\nfor rows in DataLoader(x, 16):\n"
         "    net(rows).sum().backward()\n    optimizer.step", 13),
    ],
)
def test_lines_that_run(name: str, before: str, inside: str, line: int | None) -> None:
    reported = ids(LOOP.format(before=before, inside=inside), name)
    assert reported == ([] if line is None else [("statement-without-effect", line)])


def test_a_method_in_a_loop_over_parameters() -> None:
    """The function that decorates is not the one that the line is in."""
    program = LOOP.format(before="""
average = copy.deepcopy(net)
@torch.no_grad()
def update():
    for a, p in zip(average.parameters(), net.parameters()):
        a = 0.9 * a + 0.1 * p
""", inside="update()")
    assert ids(program, "decorated") == [("statement-without-effect", 9)]


def test_functions_have_their_own_code_again() -> None:
    program = LOOP.format(before=FUNCTION.format(line="optimizer.zero_grad"), inside="pass")
    with doctor.Doctor(quiet=True):
        space = programs.run(program, "<doctor executed restored>")
    assert space["clear"].__code__.co_filename == "<doctor executed restored>"
