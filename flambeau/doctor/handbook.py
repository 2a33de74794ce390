"""The handbook: generates docs/doctor.md from the rules. `python -m flambeau.doctor.handbook`."""

from __future__ import annotations

from pathlib import Path

from .explain import read_entry
from .programs import PRELUDE
from .rules import all_rules

FILE = Path(__file__).resolve().parents[2] / "docs" / "doctor.md"

_HEAD = """\
# The doctor

The most expensive training mistakes raise no error: a softmax before cross-entropy, a forgotten
`eval()`, gradients that are never zeroed. `flambeau.doctor` watches a program while it trains and
names such mistakes with the line to fix. It changes nothing that the program computes and costs
nothing while it is off.

```
flambeau --doctor train.py                 # print findings to standard error
flambeau --doctor=strict train.py          # stop at the first certain finding; exit code 3
flambeau --doctor=check train.py           # stop after 8 updates; exit code 3 if one is certain
flambeau --doctor --json out.json --html out.html train.py
flambeau --doctor --doctor-off=eval-forgotten,graph-cut train.py
flambeau explain no-zero-grad              # a check's entry of this page
```

The program may `import torch` and needs no change. In Python:

```
with flambeau.doctor() as d:               # options: off=[ids], strict=True, quiet=True
    train()
d.findings, d.mistakes, d.summary; d.json(path); d.html(path)

trainer = Trainer(net, optimizer, loss, doctor=True)      # then trainer.doctor.findings
doctor.check(model, optimizer, loss, (x, y))              # a few steps on copies
pytest_plugins = ["flambeau.doctor.pytest_plugin"]        # a fixture `doctor` that fails the test
```

## Findings

A finding is **certain** if the values prove it, **likely** if a healthy explanation exists but is
rare, and a **hint** if it deserves a look. Hints appear only on the page and in JSON. A finding
names the line to fix, other lines involved, numbers as evidence, and the fix. The last line of a
run says how many checks passed, which could not be judged and why, and what watching cost.

If a reported pattern is intended, mark it on one of the lines that the finding names:

```
loss.backward()  # doctor: ok no-zero-grad

@doctor.intended("eval-forgotten")         # or: with doctor.intended("eval-forgotten"):
def sample(model, x): ...
```

`[tool.flambeau.doctor] ignore = ["eval-forgotten"]` in pyproject.toml turns a check off for a
project.

## Cost

The doctor watches the first 48 backward passes closely and records the line of every operator.
Later it watches a few passes after each change of mode, epoch or optimizer, and at each power of
two. In between it observes only calls of models, backward passes and updates, at 0.1 to 0.25 ms
per step. The doctor measures its own time. When it exceeds both 8 % of the program's time and
1.6 s, the doctor pauses: it restores the original code of every function that a step calls, and
resumes when the program has run long enough to pay for it. Findings in the first 8 updates after a
pause are dropped, because the checks missed what came before. The last line says when the first
pause began. Compiled functions run uncompiled in watched steps and compiled during pauses. On a
shared machine, where work takes longer, the limit of 1.6 s grows in proportion.

## JSON

`version` (1; raised when a key changes its meaning), `flambeau`, `argv`, `passes` and `updates`
(counts), `seconds`, `seconds_watching`, `suspended_at`, `error` (the exception that ended the
program), `findings`, `passed` (ids), `undecided` (`id`, `reason`), `off`, `curves` (name to
`[pass, value]`). A finding has `id`, `level`, `what`, `evidence`, `places` (`file`, `line`,
`function`, `role`, `text`; the line to fix first), `fix`, `steps` (numbers of backward passes)
and `silence`.

## What it cannot see

- Mistakes that no number shows: wrong but plausible labels, features that are known only later, a
  validation set chosen by its results, hyperparameters that are merely bad.
- Leaks that change the samples' values (another crop, another scale, near duplicates), and leaks of
  integer samples, which are not remembered.
- Hand-written losses, beyond what shapes, axes, cut gradients and the signs of well-known terms
  reveal. A few checks, such as `model-not-copied` and `best-by-greatest-loss`, depend on variable
  names (best, loss, accuracy, reward, test): other names hide the mistake from them.
- Other threads and processes, except for generators shared with data workers; differences between
  compiled and uncompiled runs.
- Mistakes that begin late, between two watched passes or during a pause, and leave no trace in
  modes, optimizers or the loss. Checks that need every step are then undecided.

## The checks

Each entry is generated from its rule, and its programs are run by the tests. They follow these
lines:

"""


def write_handbook() -> str:
    """Return the text of docs/doctor.md."""
    entries = [read_entry(rule) for rule in all_rules().values()]
    return f"{_HEAD}```py\n{PRELUDE}```\n\n" + "\n\n".join(entries) + "\n"


if __name__ == "__main__":
    FILE.write_text(write_handbook(), encoding="utf-8")
