"""The handbook: generates docs/doctor.md from the rules. `python -m flambeau.doctor.handbook`."""

from __future__ import annotations

from pathlib import Path

from .explain import entry
from .programs import PRELUDE
from .rules import all_rules

FILE = Path(__file__).resolve().parents[2] / "docs" / "doctor.md"

_HEAD = """\
# The doctor

The most expensive training mistakes raise no error: a softmax before cross-entropy, a forgotten
`eval()`, gradients that are never zeroed. `flambeau.doctor` watches a program while it trains and
names such mistakes with the line to mend. It changes nothing that the program computes, and costs
nothing while it is off.

```
flambeau --doctor train.py                 # findings on standard error as they come
flambeau --doctor=strict train.py          # the first certain finding ends it; exit code 3
flambeau --doctor=check train.py           # stops after 8 updates; 3 if one is certain
flambeau --doctor --json out.json --html out.html train.py
flambeau --doctor --doctor-off=eval-forgotten,graph-cut train.py
flambeau explain no-zero-grad              # a check's entry of this page
```

The program may `import torch`: it need not know of flambeau. In Python:

```
with flambeau.doctor() as d:               # options: off=[ids], strict=True, quiet=True
    train()
d.findings, d.mistakes, d.summary; d.json(path); d.html(path)

trainer = Trainer(net, optimizer, loss, doctor=True)      # then trainer.doctor.findings
doctor.check(model, optimizer, loss, (x, y))              # a few steps on copies
pytest_plugins = ["flambeau.doctor.pytest_plugin"]        # a fixture `doctor` that fails the test
```

## Findings

A finding is **certain** where the values prove it, **likely** where a healthy reading exists but
is rare, and a **hint** where it is worth a look. Hints appear in the page and in JSON only. It
names the line to mend, other lines that take part, numbers as evidence, and the fix. The last
line of a run says how many checks passed, which could not be judged and why, and what watching
cost.

What looks like a mistake and is meant is marked on one of the lines that the finding names:

```
loss.backward()  # doctor: ok no-zero-grad

@doctor.intended("eval-forgotten")         # or: with doctor.intended("eval-forgotten"):
def sample(model, x): ...
```

`[tool.flambeau.doctor] ignore = ["eval-forgotten"]` in pyproject.toml turns a check off for a
project.

## Cost

The first 48 backward passes are watched closely, which notes the line of every recorded operator;
later a few after each change of mode, epoch or optimizer, and at each power of two. Between them
only calls of models, backward passes and updates are seen, which costs 0.1 to 0.25 ms a step.
The doctor adds up its own time. Once that is more than 8 % of the program's and more than 1.6 s,
it rests: it gives every function that a step calls its own code back, and watches again when the
program has run long enough to pay for it. What it then finds in the first 8 updates is not told,
as the checks have missed what came before. The last line says when it rested first. Compiled
functions run as they were written in watched steps, and as programs while the doctor rests. On a
machine that others use, where a second of work takes longer, the 1.6 s grow as much.

## JSON

`version` (1; raised when a key changes its meaning), `flambeau`, `argv`, `passes` and `updates`
(counts), `seconds`, `seconds_watching`, `suspended_at`, `error` (the exception that ended the
program), `findings`, `passed` (ids), `undecided` (`id`, `reason`), `off`, `curves` (name to
`[pass, value]`). A finding has `id`, `level`, `what`, `evidence`, `places` (`file`, `line`,
`function`, `role`, `text`; the line to mend first), `fix`, `steps` (numbers of backward passes)
and `silence`.

## What it cannot see

- What no number shows: labels that are wrong but plausible, features that are known only later, a
  validation set that was chosen by its results, hyperparameters that are merely bad.
- Leaks that change the samples' numbers (another crop, another scale, near duplicates), and those
  of samples made of integers, which are not remembered.
- Losses written by hand, beyond what shapes, axes, cut gradients and the signs of well-known terms
  tell. What variables are called (best, loss, accuracy, reward, test) counts in a few checks, such
  as `model-not-copied` and `best-by-greatest-loss`: other names hide the mistake from them.
- Other threads and processes: of data workers only the generators that they share; what a compiled
  program would have done differently.
- What begins late between two watched passes and leaves no trace in modes, optimizers or the loss,
  or while the doctor rests: checks that need every step of a program are undecided then.

## The checks

Each entry is generated from its rule, and its programs are run by the tests. They follow these
lines:

"""


def handbook() -> str:
    """Return the text of docs/doctor.md."""
    entries = [entry(rule) for rule in all_rules().values()]
    return f"{_HEAD}```py\n{PRELUDE}```\n\n" + "\n\n".join(entries) + "\n"


if __name__ == "__main__":
    FILE.write_text(handbook(), encoding="utf-8")
